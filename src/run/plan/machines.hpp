// The machines that a plan is for, how long work takes on them, and the sheet that says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../json_text.hpp"
#include "hanse/comm/cluster.hpp"
#include "hanse/run/plan.hpp"

namespace hanse {

struct Job;

// What a plan says: lines for a person, or one JSON object.
class PlanSheet {
 public:
  // Adds a line of the text.
  void line(const std::string& label, const std::string& value);
  // Adds whole lines to the text.
  void text(const std::string& lines) { lines_ += lines; }
  // Adds a field of the object: a text, a double or an integer.
  void field(const std::string& key, const nlohmann::json& value) { fields_[key] = value; }
  // Adds both. The end of a key says the unit of a double: "_bytes" or "_seconds".
  void add(const std::string& key, const std::string& label, const nlohmann::json& value);

  std::string lines() const { return lines_; }
  std::string json() const { return json_dump(fields_, 2) + "\n"; }

 private:
  std::string lines_;
  nlohmann::ordered_json fields_;
};

// "1.2 MB" and "3.4 ms", as sheets write them.
std::string bytes_text(double bytes);
std::string seconds_text(double seconds);

inline double number(int64_t n) { return static_cast<double>(n); }

// Seconds until the last host has worked off `loads` [ranks], one after another on each rank. A
// host with more ranks than cores works at the speed of all its cores.
double busiest(const Cluster& cluster, std::span<const double> loads);

// The loads of the ranks when costs[i] falls to worker_of[i].
std::vector<double> loads_of(const Cluster& cluster, std::span<const double> costs,
                             std::span<const int64_t> worker_of);

// The busiest() of `seconds` of work in `items` equal parts, which `workers` ranks share.
double shared_s(const Cluster& cluster, double seconds, int64_t items, int64_t workers);

// The measured speeds of the machines that the plan is started on.
struct MachineSpeeds {
  double add_s = 0;  // a byte of int64 in memory, added to another
  Link link;         // between the started ranks; rate 0: there is one
};

// What a plan is made for.
struct PlanCase {
  const PlanOptions& options;
  const Job& job;
  Communicator& comm;
  double start_bytes = 0;  // resident before the job's objects were made
  double load_bytes = 0;  // the most resident meanwhile: reading data may take more than keeping it
  double made_bytes = 0;  // resident when they were made
  double room_bytes = 0;  // memory that this process could have had at its start
  Cluster started = {};
  Cluster planned = {};  // links are not set
};

// The ranks of `comm` on their hosts. Collective.
Cluster started_cluster(const Job& job, Communicator& comm, Communicator& host);

// Throws InvalidArgument when there are more hosts than ranks.
Cluster planned_cluster(const PlanOptions& options, const Job& job, const Cluster& started);

// Sets the links: given, measured between as many hosts, or assumed; between the ranks of a host
// measured, or two passes through its memory. Returns which it is: "given", "measured", "assumed".
std::string set_links(const PlanOptions& options, const MachineSpeeds& speeds,
                      const Cluster& started, Cluster& planned);

void describe(const Cluster& cluster, const std::string& source, PlanSheet& sheet);

}  // namespace hanse

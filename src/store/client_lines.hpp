// The lines of clients.csv.
#pragma once

#include <string>

#include "hanse/base/columns.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// Columns as RunDirectory::write_clients() says. All must outlive it.
class ClientLines {
 public:
  ClientLines(const Federation& federation, const AskedMetrics& asked, const Columns& added)
      : federation_(federation), asked_(asked), added_(added) {}

  std::string header() const;
  std::string line(const ClientEvaluation& found) const;

 private:
  bool has_auroc() const { return federation_.classes() == 2; }
  bool has_validation() const { return asked_.on == EvaluateOn::kBoth; }

  const Federation& federation_;
  const AskedMetrics& asked_;
  const Columns& added_;
};

}  // namespace hanse

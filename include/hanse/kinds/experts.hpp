// Makes online rules and their fits by the names of a job.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/client/stream_fit.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/rules/experts/experts.hpp"

namespace hanse {

struct Job;
struct OnlineOptions;

// `horizon` is T in the rate that online.eta = auto chooses.
std::unique_ptr<ExpertRule> make_experts(const OnlineOptions& options, int64_t nodes,
                                         int64_t horizon);
// Do its nodes move by gradients of all nodes' models?
bool exchanges_gradients(const OnlineOptions& options);
std::unique_ptr<StreamFit> make_stream_fit(const Job& job, const Federation& federation,
                                           Model& model);

// The rate of the rule's weights; 0: it has none. Throws InvalidArgument for a rate <= 0.
double online_eta(const OnlineOptions& options, int64_t nodes, int64_t horizon);

// Checks the online options of an online job. Throws InvalidArgument.
void check_online(const Job& job);

}  // namespace hanse

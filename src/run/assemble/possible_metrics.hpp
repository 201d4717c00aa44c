// What evaluations can find in the data of a run, whatever its model.
#pragma once

#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

struct Job;

// The metrics that evaluations have whatever the protocol; those of validation samples also without
// their prefix. NaN marks those for which no model gets a number: the AUROC where no client has
// samples of both classes, for example, or `improved` of a job that evaluates once. Cost:
// O(clients), and where labels matter O(samples).
Metrics possible_metrics(const Job& job, const Federation& federation);

// Does the first evaluation lack this metric?
bool compares_evaluations(const std::string& name);

// Why such a metric is NaN: "no client has ...".
std::string why_impossible(const std::string& name);

// The metric of that name on validation samples, which decide where there are others, too.
double deciding_value(const std::string& name, const Metrics& metrics);

}  // namespace hanse

// Makes analyses by the names of a job.
#pragma once

#include <memory>
#include <string>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

struct Job;

// Checks what can be checked without data. Throws InvalidArgument.
void check_statistics(const Job& job);

// One of the kinds of statistics.kind. Throws InvalidArgument: unknown, or its columns are.
// REQUIRES, of a private one: check_statistics() passes.
std::unique_ptr<Analysis> make_analysis(const std::string& kind, const AnalysisSetup& setup,
                                        bool is_private);

}  // namespace hanse

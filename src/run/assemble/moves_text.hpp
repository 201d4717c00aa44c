// What a run says of the tensors that move, and of the models that are evaluated.
#pragma once

#include <string>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

struct Job;

// Lines for the greeting: what steps move and when, which trained values nothing moves, and which
// model evaluations are of, where that is not the shared one as it is. `layout`: of the row.
std::vector<std::string> moves_notices(const Job& job, const LocalUpdate& update,
                                       const ParameterLayout& layout);

}  // namespace hanse

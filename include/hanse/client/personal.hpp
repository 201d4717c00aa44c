// Tensors that stay with the client: a shared body with heads of the clients' own (FedPer,
// Arivazhagan et al. 2019), norm layers of their own (FedBN, Li et al. 2021).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// The parts of a row whose tensors' names match one of the shell patterns (* ? [..]), neighbours
// joined. Throws InvalidArgument, with the tensors' names, when a pattern matches none, or all
// tensors are matched, unless all may stay.
std::vector<RowPart> personal_parts(const ParameterLayout& layout,
                                    const std::vector<std::string>& patterns,
                                    bool all_may_stay = false);

// Wraps sgd, prox, scaffold or another separable update: the client trains the received model with
// the values of `parts` that it had at the end of its last participation, and keeps the new ones.
// Its update is zero there, so that they are never mixed and the shared model's own entries stay as
// they were at the start; that is where a client starts from in its first round. Norms and inner
// products are those of the shared parts. SCAFFOLD corrects the shared parts alone. The own model
// is the received one with the client's parts; no training. REQUIRES: `inner` is a PassUpdate;
// where its control variate is of the row (control_of_row), what it keeps between rounds is a row
// that is corrections of the model's row, entry by entry. State: inner's, the parts' values and a
// flag. Cost: two passes over the parts.
std::unique_ptr<LocalUpdate> make_personal(std::unique_ptr<LocalUpdate> inner,
                                           std::vector<RowPart> parts);

}  // namespace hanse

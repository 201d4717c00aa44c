// FedDyn (Acar et al. 2021): a regulariser that moves with the client.
#pragma once

#include <memory>

#include "hanse/client/local_update.hpp"

namespace hanse {

// From the received theta, by the steps and mini-batches of SGD, with the client's state h_i
//   x <- x - lr (g(x) - h_i + alpha (x - theta)),  then  h_i <- h_i - alpha (x - theta),
// alpha = options.second_order.alpha. The server's part is make_dyn_optimizer(), which the control
// variate of one entry, always 1, tells the participants' share of all clients.
// REQUIRES: options ask for plain steps (beyond_plain_steps). State: a row. Memory: two rows and
// one batch.
std::unique_ptr<LocalUpdate> make_feddyn(const ClientOptions& options, const Federation& federation,
                                         Model& model);

}  // namespace hanse

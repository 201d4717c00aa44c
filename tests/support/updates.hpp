// Client updates by name.
#pragma once

#include <memory>

#include "hanse/client/updates.hpp"

namespace hanse {

// "prox", or else plain SGD.
inline std::unique_ptr<LocalUpdate> sgd_or_prox(const ClientOptions& options,
                                                const Federation& federation, Model& model) {
  return (options.kind == "prox" ? make_prox : make_sgd)(options, federation, model);
}

}  // namespace hanse

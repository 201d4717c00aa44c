// What a job needs to know of client.update before the update is made.
#pragma once

#include "hanse/client/options.hpp"

namespace hanse {

struct UpdateTraits {
  bool plain_steps = false;  // the steps of section client, and nothing else
  bool separable = false;    // tensors can be trained apart, so that some stay with the client
  bool own_models = false;   // every client has a model of its own
  bool straggles = false;    // reads client.stragglers
  bool solves = false;       // the server solves a system with what training finds
};

// Throws InvalidArgument for an unknown kind.
UpdateTraits update_traits(const ClientOptions& options);

}  // namespace hanse

// Makes local updates and server optimizers by the names of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct Job;

struct UpdateTraits {
  bool separable = false;    // tensors can be trained apart, so that some stay with the client
  bool own_models = false;   // every client has a model of its own
  bool straggles = false;    // reads client.stragglers
  bool solves = false;       // the server solves a system with what training finds
  bool keeps = false;        // clients keep numbers between rounds
  bool control = false;      // a control variate moves by what they send
  bool own_steps = false;    // gradients at several models, in steps of its own
  bool one_by_one = false;   // clients train one after the other
  bool own_loss = false;     // gives the model another loss than model.loss
  bool represents = false;   // reads what the last dense layer reads
  bool sends_means = false;  // of classes: without any tensor of the model, too
  bool adapts = false;       // the own model is the shared one behind steps of client.inner-lr
};

// Throws InvalidArgument for an unknown kind.
UpdateTraits update_traits(const ClientOptions& options);

// The clients' options, as the job's update and rule change them.
ClientOptions instructed_clients(const Job& job);

// Does evaluate.tune move tensors beside client.train, the part that is trained? Then both are in
// the row, and training moves client.train alone.
bool tunes_beyond_training(const Job& job);
// Names of the tensors that the row has; empty: all.
std::vector<std::string> row_patterns(const Job& job);

// evaluate.view: are clients evaluated with models of their own? `auto`: yes if client.update,
// client.personal, client.clustered or client.alone give them some.
bool evaluates_own_models(const Job& job);

// Makes the update of client.update, or the one that finds rates for a rule that needs them; for a
// ClusteredModel around it a ClusteredUpdate. Throws
// InvalidArgument when options, federation and model do not fit together.
std::unique_ptr<LocalUpdate> make_update(const Job& job, const Federation& federation, Model& model,
                                         const AggregatorNeeds& needs);

// Gives the network the loss that client.update trains it for, if that is not model.loss. Throws
// InvalidArgument where the network has no such loss.
void take_update_loss(const Job& job, Model& network);

// Plain steps of the job's options, for evaluate.tune-steps; null: there are none.
ClientOptions tuner_options(const Job& job);
std::unique_ptr<LocalUpdate> make_tuner(const Job& job, const Federation& federation, Model& model);

// The server's step by server.optimizer, or by client.update where that asks for one.
std::unique_ptr<ServerOptimizer> make_optimizer(const Job& job, int64_t clients, int64_t n_params);

}  // namespace hanse

#include "bind.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_model(OptionTable& table, Job& job) {
  ModelOptions& model = job.model;
  table.add_choice("model.loss", model.loss, {"cross-entropy", "binary-logistic", "squared-error"},
                   "loss of one sample; the mean over a batch is minimised");
  table.add_choice("model.init", model.init, {"auto", "uniform", "zeros"},
                   "initial parameters; auto: +-1/sqrt(inputs of the unit), norms 1 and 0, "
                   "torchscript: the file's; uniform: the same, not for torchscript");
}

void bind_client(OptionTable& table, Job& job) {
  ClientOptions& client = job.client;
  table.add("client.epochs", client.epochs, at_least(1),
            "passes over the client's samples a round; not used when client.steps > 0");
  table.add("client.steps", client.steps, at_least(0), "mini-batch steps a round; 0: epochs");
  table.add("client.batch", client.batch, at_least(0), "samples a step; 0: all of the client's");
  table.add("client.lr", client.lr, above(0), "step size in the first round");
  table.add("client.lr-decay", client.lr_decay, above_to(0, 1), "factor on client.lr ...");
  table.add("client.lr-decay-every", client.lr_decay_every, at_least(1),
            "... every so many rounds");
  table.add("client.momentum", client.momentum, from_below(0, 1),
            "heavy ball, from rest each round");
  table.add("client.weight-decay", client.weight_decay, at_least(0), "L2 penalty / 2");
  table.add("client.clip", client.clip, at_least(0), "largest gradient norm; 0: off");
  table.add("client.personal", client.personal,
            "names of tensors that stay with the client, with * and ?, separated by commas, e.g. "
            "fc3.* (FedPer) or *norm* (FedBN); empty: none");
  table.add(
      "client.state-memory", client.state_memory, at_least(0),
      "MiB a rank for client states; what is beyond lies in a mapped file in the run directory");
}

}  // namespace hanse

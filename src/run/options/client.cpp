#include "bind.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

void bind_model(OptionTable& table, ModelOptions& model) {
  table.add_choice("model.kind", model.kind, known_names("model.kind"), "network");
  table.add_choice("model.loss", model.loss, {"cross-entropy", "binary-logistic", "squared-error"},
                   "loss of one sample; the mean over a batch is minimised");
  table.add("model.hidden", model.hidden, at_least(1), "widths of the hidden layers")
      .only_for({"mlp"});
  table.add("model.bias", model.bias, "a bias beside the weights").only_for({"linear"});
  table
      .add("model.vocabulary", model.vocabulary, at_least(0),
           "tokens that samples are made of; 0: as many as classes")
      .only_for({"lstm", "transformer"});
  table
      .add("model.embedding", model.embedding, at_least(0),
           "values a token; 0: 8 (lstm), 64 (transformer)")
      .only_for({"lstm", "transformer"});
  table
      .add("model.units", model.units, at_least(0),
           "lstm: units of a layer, 0: 256; transformer: of the feed-forward layer, 0: 4 x "
           "embedding")
      .only_for({"lstm", "transformer"});
  table
      .add("model.layers", model.layers, at_least(0),
           "LSTM or encoder layers; 0: 2 (lstm), 1 (transformer)")
      .only_for({"lstm", "transformer"});
  table.add("model.heads", model.heads, at_least(1), "attention heads; divide model.embedding")
      .only_for({"transformer"});
  table
      .add("model.dropout", model.dropout, from_below(0, 1),
           "share dropped behind each layer in training")
      .only_for({"lstm", "transformer"});
  table
      .add("model.channels", model.channels, at_least(1),
           "channels of the first stage; doubled from stage to stage")
      .only_for({"resnet18"});
  table.add("model.groups", model.groups, at_least(1), "of group norm; divide model.channels")
      .only_for({"resnet18"});
  table
      .add("model.path", model.path,
           "file of the network, scripted or traced; scripts/export-model writes one")
      .only_for({"torchscript"});
  table.add_choice("model.init", model.init, {"auto", "uniform", "zeros"},
                   "initial parameters; auto: +-1/sqrt(inputs of the unit), norms 1 and 0, "
                   "torchscript: the file's; uniform: the same, not for torchscript");
}

namespace {

void bind_second_order(OptionTable& table, SecondOrderOptions& options) {
  table
      .add("client.alpha", options.alpha, at_least(0), "damping added to the Hessian, in its units")
      .only_for({"fednew"});
  table
      .add("client.rho", options.rho, above(0),
           "penalty that pulls the clients' directions together, in the Hessian's units; larger "
           "is safer and slower")
      .only_for({"fednew"});
  table
      .add("client.tolerance", options.tolerance, from_below(0, 1),
           "residual at which conjugate gradients stop, as a share of the right-hand side")
      .only_for({"fednew"});
  table
      .add("client.iterations", options.iterations, at_least(1),
           "most Hessian-vector products of a client and round")
      .only_for({"fednew"});
  table
      .add_choice("client.compressor", options.compressor, {"rank", "top"},
                  "what is left of a Hessian's correction: its largest eigenpairs or entries")
      .only_for({"fednl"});
  table.add("client.rank", options.rank, at_least(1), "eigenpairs of client.compressor = rank")
      .only_for({"fednl"});
  table
      .add("client.top", options.top, at_least(0),
           "entries of the upper triangle of client.compressor = top; 0: 8 a parameter")
      .only_for({"fednl"});
  table
      .add("client.hessian-rate", options.hessian_rate, above_to(0, 1),
           "share of a correction by which the Hessian's estimate moves")
      .only_for({"fednl"});
  table
      .add_choice("client.hessian-start", options.hessian_start, {"hessian", "zero"},
                  "first estimate: the Hessian at the first model, sent whole; or zero")
      .only_for({"fednl"});
  table
      .add_choice("client.safeguard", options.safeguard, {"frobenius", "projection"},
                  "what keeps the server's matrix positive: the estimate's mean distance from the "
                  "Hessian on its diagonal, or eigenvalues of at least client.least-eigenvalue")
      .only_for({"fednl"});
  table
      .add("client.least-eigenvalue", options.least_eigenvalue, above(0),
           "of the server's matrix with client.safeguard = projection; that of the loss, such as "
           "client.weight-decay, or below")
      .only_for({"fednl"});
}

}  // namespace

void bind_client(OptionTable& table, ClientOptions& client) {
  table.add_choice("client.update", client.kind, known_names("client.update"),
                   "what a participant does with the model");
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
  table.add("client.mu", client.mu, at_least(0), "weight of the proximal term mu/2 |w - theta|^2")
      .only_for({"prox"});
  table
      .add("client.lambda", client.lambda, at_least(0),
           "weight of lambda/2 |v - theta|^2 that pulls a client's own model v to the received one")
      .only_for({"ditto"});
  table.add("client.personal", client.personal,
            "names of tensors that stay with the client, with * and ?, separated by commas, e.g. "
            "fc3.* (FedPer) or *norm* (FedBN); empty: none");
  table.add_choice("client.rate", client.rate, {"l-bfgs", "gradient"},
                   "rate d of dqn-fed's clients: of an L-BFGS step, or of a gradient step");
  table.add("client.pairs", client.pairs, between(1, 1000),
            "m, pairs that client.rate = l-bfgs keeps");
  table.add("client.rate-limit", client.rate_limit, at_least(0),
            "a rate of dqn-fed's clients is at most so many times the loss; 0: no limit");
  table.add_choice("client.gradient", client.gradient, {"last", "mean", "update"},
                   "what dqn-fed's clients send after several local steps: the gradient at the "
                   "last iterate, the mean of all, or the update, lr times their sum");
  bind_second_order(table, client.second_order);
  table.add(
      "client.state-memory", client.state_memory, at_least(0),
      "MiB a rank for client states; what is beyond lies in a mapped file in the run directory");
}

}  // namespace hanse

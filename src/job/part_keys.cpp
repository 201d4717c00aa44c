#include "part_keys.hpp"

namespace hanse {

void bind_part(OptionTable& table, PartOptions& client) {
  table.add("client.personal", client.personal,
            "names of tensors that stay with the client, with * and ?, separated by commas, e.g. "
            "fc3.* (FedPer) or *norm* (FedBN); empty: none");
  table.add("client.alternate", client.alternate,
            "names of tensors, separated by commas: each round moves those of one name, in turn");
  table.add(
      "client.train", client.train,
      "names of tensors that are trained, with * and ?, separated by commas, e.g. fc.*; the "
      "others are frozen: they are neither sent nor summed; empty: all, with client.lora none");
  table
      .add("client.lora", client.lora,
           "rank of adapters, which are trained in the place of frozen matrices: W + s B A; 0: "
           "none; auto: rank, alpha, scale and layers of the folder of PEFT that is model.start")
      .range = "auto | [0, inf)";
  table.add("client.lora-layers", client.lora_layers,
            "names of the matrices that have adapters; *: all with client.lora rows and columns");
  table.add(
      "client.lora-kind", client.lora_kind,
      "plain: clients train and send A and B; ffa: B alone (client.train = *.lora_B), so that "
      "the mean of products is exact; rolora: B and A in turn (client.alternate = "
      "*.lora_B,*.lora_A); fedsa: A is shared and B stays with the client "
      "(client.personal = *.lora_B); flora: the server adds the sum of the products to W, and "
      "rounds start from fresh adapters");
  table.add("client.lora-alpha", client.lora_alpha, or_auto(above(0)),
            "alpha of the adapters' scale s; auto: the rank");
  table.add("client.lora-scale", client.lora_scale,
            "s = alpha / rank, or alpha / the rank's root (rsLoRA)");
  table
      .add("client.lora-ranks", client.lora_ranks,
           "a csv of the clients' ranks, lines client,rank, each client once; client.lora is the "
           "largest; for client.lora-kind = flora; empty: all have client.lora")
      .may_change = true;
  table.add("client.lora-path", client.lora_path,
            "merged: a rank forms W + s B A; split: graph computes x W' + s (x A') B', without a "
            "copy of W; auto: split for matrices that are in products and look-ups alone");
  table.add("client.lora-dropout", client.lora_dropout, from_below(0, 1),
            "share of the adapters' inputs that a training step drops, the same for all samples of "
            "its mini-batch");
}

void bind_clusters(OptionTable& table, ClusterOptions& clusters) {
  table.add("client.clustered", clusters.clustered,
            "names of tensors of which each cluster of clients has a copy, with * and ?, separated "
            "by commas; *: all (IFCA); empty: none");
  table.add("client.cluster-by", clusters.cluster_by,
            "which copy a client takes: loss: the one of its least loss, in every round; fixed: by "
            "a file (federation.clusters-path), or by clusters of the clients' shares of labels");
  table.add("federation.models", clusters.models, between(1, 100),
            "copies of the tensors of client.clustered");
  table.add("federation.clusters-path", clusters.clusters_path,
            "client.cluster-by = file: CSV client,cluster with a header, each client once, "
            "clusters from 0");
}

void bind_model_files(OptionTable& table, RunOptions& run) {
  table.add_choice("run.state-dict", run.state_dict, {"false", "true", "safetensors"},
                   "write the model for Python too: state_dict.pt (torch.load), or safetensors");
  table
      .add("run.merge-adapters", run.merge_adapters,
           "write model.h5, best.h5, averaged.h5 and state_dict.pt with the adapters of "
           "client.lora added to their matrices")
      .may_change = true;
  table
      .add("run.adapters", run.adapters,
           "peft: also write the adapters for Python's PEFT, in the folders adapters and, with "
           "best.h5, best-adapters")
      .may_change = true;
}

}  // namespace hanse

#include <utility>

#include <ATen/ATen.h>

#include "device/step_gradient.hpp"

namespace hanse {

namespace {

class ClientGradient final : public StepGradient {
 public:
  ClientGradient(StepParts parts, ClientPasses& network)
      : parts_(std::move(parts)), network_(network) {
    for (int64_t client = 0; client < parts_.clients; ++client) {
      rows_.push_back(of_client(parts_.rows, client));
      gradients_.push_back(of_client(parts_.gradients, client));
      std::vector<at::Tensor>& moved = moved_.emplace_back(rows_.back().size());
      for (std::size_t i = parts_.trained; i < moved.size(); ++i) {
        moved[i] = at::empty_like(rows_.back()[i]);
      }
    }
  }

  at::Tensor find(int64_t clients, const StepTotals& totals) override {
    const auto counts = parts_.noise.of_clients(parts_.table.number(), clients);
    acted_.clear();
    const at::Tensor means = at::zeros({clients}, parts_.features.options().dtype(at::kDouble));
    for (int64_t client = 0; client < clients; ++client) {
      const auto place = static_cast<std::size_t>(client);
      if (counts.counts[place] == 0) continue;
      acted_.push_back(place);
      means[client].copy_(find_one(client, counts.counts[place], counts.seeds[place], totals)[0]);
    }
    return means;
  }

  void move_buffers() const override {
    for (const std::size_t place : acted_) {
      for (std::size_t i = parts_.trained; i < moved_[place].size(); ++i) {
        rows_[place][i].copy_(moved_[place][i]);
      }
    }
  }

 private:
  // The mean loss [1] of a client's n samples.
  at::Tensor find_one(int64_t client, int64_t n, uint64_t seed, const StepTotals& totals) {
    const at::Tensor order = parts_.table.places().narrow(0, client * parts_.batch, n);
    const at::Tensor logits = network_.forward(rows_[static_cast<std::size_t>(client)],
                                               parts_.features.index_select(0, order), seed);
    const auto [delta, means] =
        parts_.step_loss.differentiate(logits.unsqueeze(0), {client, 1, n}, totals);
    network_.move_buffers(moved_[static_cast<std::size_t>(client)]);
    network_.backward(delta.view_as(logits), gradients_[static_cast<std::size_t>(client)]);
    return means;
  }

  static std::vector<at::Tensor> of_client(const std::vector<at::Tensor>& tensors, int64_t client) {
    std::vector<at::Tensor> own;
    for (const at::Tensor& tensor : tensors) own.push_back(tensor[client]);
    return own;
  }

  StepParts parts_;
  ClientPasses& network_;
  std::vector<std::vector<at::Tensor>> rows_, gradients_;  // views of each client's
  std::vector<std::vector<at::Tensor>> moved_;  // buffers, in their places; the others undefined
  std::vector<std::size_t> acted_;              // clients of the last find() with samples
};

}  // namespace

std::unique_ptr<StepGradient> make_client_gradient(StepParts parts, ClientPasses& network) {
  return std::make_unique<ClientGradient>(std::move(parts), network);
}

}  // namespace hanse

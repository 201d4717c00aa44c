#include "device/step_table.hpp"

#include <algorithm>
#include <cstddef>

#include "device/upload.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

StepTable::StepTable(int64_t clients, int64_t batch, int64_t dropouts, const at::Device& device) {
  const int64_t places = clients * batch, drawn = dropouts * clients;
  const int64_t rates = (clients + 1) / 2;  // two in the room of an int64
  now_ = at::zeros({places + clients + drawn + rates}, at::TensorOptions(at::kLong).device(device));
  places_ = now_.narrow(0, 0, places);
  counts_ = now_.narrow(0, places, clients);
  drawn_ = now_.narrow(0, places + clients, drawn).view({dropouts, clients});
  rates_ = now_.narrow(0, places + clients + drawn, rates).view(at::kFloat).narrow(0, 0, clients);
}

void StepTable::put(const CohortSteps& steps, std::span<const int64_t> drawn) {
  const std::size_t clients = to_index(counts_.numel());
  const std::size_t n = steps.counts.size() / clients;
  const at::Tensor table =
      staged({static_cast<int64_t>(n), now_.numel()}, at::kLong, now_.device());
  auto* next = table.data_ptr<int64_t>();
  const auto put_part = [&](auto values, std::size_t step) {
    const std::size_t width = values.size() / n;
    const auto bytes = std::as_bytes(values.subspan(step * width, width));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(next));
    next += (bytes.size() + sizeof(int64_t) - 1) / sizeof(int64_t);
  };
  for (std::size_t step = 0; step < n; ++step) {
    put_part(steps.places, step);
    put_part(steps.counts, step);
    put_part(drawn, step);
    put_part(steps.rates, step);
  }
  steps_ = sent(table, now_.device());
}

void StepTable::choose(int64_t number) {
  number_ = number;
  now_.copy_(steps_[number]);
}

}  // namespace hanse

#include "hanse/model/gradient_record.hpp"

#include <cstddef>

#include "hanse/base/products.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

void GradientRecord::clear() {
  row_ = {};
  floats_.clear();
  factors_.clear();
  values_.clear();
}

std::size_t GradientRecord::copy(const float* from, int64_t size) {
  const std::size_t at = floats_.size();
  floats_.insert(floats_.end(), from, from + size);
  floats_.resize(whole_lines(floats_.size()));
  return at;
}

void GradientRecord::add_product(const WeightGradient& product) {
  const std::size_t deltas = copy(product.deltas, product.samples * product.out);
  const std::size_t inputs = copy(product.inputs, product.samples * product.in);
  factors_.push_back({product, deltas, inputs});
}

void GradientRecord::add_values(int64_t offset, std::span<const float> values) {
  const std::size_t at = copy(values.data(), static_cast<int64_t>(values.size()));
  values_.push_back({offset, at, values.size()});
}

WeightGradient GradientRecord::product(std::size_t i) const {
  WeightGradient found = factors_[i].product;
  found.deltas = floats_.data() + factors_[i].deltas_at;
  found.inputs = floats_.data() + factors_[i].inputs_at;
  return found;
}

std::span<const float> GradientRecord::values(std::size_t i) const {
  const std::span<const float> memory = row_.empty() ? std::span(floats_) : row_;
  return memory.subspan(values_[i].at, values_[i].size);
}

void GradientRecord::add_to(std::span<float> row, float scale, float keep) const {
  const RowUpdate update{.row = row.data(), .keep = keep, .scale = scale};
  for (std::size_t i = 0; i < factors_.size(); ++i) update.add(product(i));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    update.add(values_[i].offset, values(i).data(), std::ssize(values(i)));
  }
}

// With D^T X as a weight's gradient, g.r is the sum over all entries of (X R^T) times D.
double GradientRecord::product_with(std::span<const float> row) const {
  double sum = 0;
  AlignedFloats outputs;
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    const WeightGradient p = product(i);
    outputs.assign(static_cast<std::size_t>(p.samples * p.out), 0);
    hanse::add_product(p.samples, p.out, p.in, p.inputs, row.data() + p.offset, outputs.data());
    sum += inner_product(outputs, {p.deltas, outputs.size()});
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto offset = static_cast<std::size_t>(values_[i].offset);
    sum += inner_product(row.subspan(offset, values_[i].size), values(i));
  }
  return sum;
}

// Adds the products of one layer's factors to the lower triangle.
void GradientRecord::add_products(Records gradients, std::size_t part, std::span<double> gram) {
  std::vector<const float*> deltas, inputs;  // of all samples of all gradients
  std::vector<std::size_t> owner;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const WeightGradient p = gradients[i]->product(part);
    for (int64_t r = 0; r < p.samples; ++r) {
      deltas.push_back(p.deltas + r * p.out);
      inputs.push_back(p.inputs + r * p.in);
      owner.push_back(i);
    }
  }
  const std::size_t n = owner.size();
  std::vector<double> by_deltas(n * n);
  std::vector<double> by_inputs(n * n);
  const WeightGradient shape = gradients.front()->product(part);
  add_gram(deltas, shape.out, by_deltas);
  add_gram(inputs, shape.in, by_inputs);
  for (std::size_t r = 0; r < n; ++r) {
    double* to = &gram[owner[r] * gradients.size()];
    for (std::size_t c = 0; c <= r; ++c) {
      const double both = by_deltas[r * n + c] * by_inputs[r * n + c];
      to[owner[c]] += owner[c] == owner[r] && c < r ? 2 * both : both;
    }
  }
}

void GradientRecord::add_alike(Records gradients, std::span<double> gram) {
  for (std::size_t i = 0; i < gradients[0]->factors_.size(); ++i) add_products(gradients, i, gram);
  for (std::size_t i = 0; i < gradients[0]->values_.size(); ++i) {
    std::vector<const float*> parts;
    for (const GradientRecord* gradient : gradients) parts.push_back(gradient->values(i).data());
    add_gram(parts, std::ssize(gradients[0]->values(i)), gram);
  }
}

void GradientRecord::gram(Records gradients, std::span<double> gram) {
  const std::size_t n = gradients.size();
  const auto put = [&](std::size_t i, std::size_t j, double product) {
    gram[i * n + j] = gram[j * n + i] = product;
  };
  std::vector<std::size_t> rows, factored;  // their places in `gradients`
  for (std::size_t i = 0; i < n; ++i) {
    (gradients[i]->row_.empty() ? factored : rows).push_back(i);
  }
  for (const std::vector<std::size_t>& places : {rows, factored}) {
    if (places.empty()) continue;
    std::vector<const GradientRecord*> alike;
    for (const std::size_t place : places) alike.push_back(gradients[place]);
    std::vector<double> lower(alike.size() * alike.size());
    add_alike(alike, lower);
    for (std::size_t i = 0; i < alike.size(); ++i) {
      for (std::size_t j = 0; j <= i; ++j) put(places[i], places[j], lower[i * alike.size() + j]);
    }
  }
  for (const std::size_t i : rows) {
    for (const std::size_t j : factored) {
      put(i, j, gradients[j]->product_with(gradients[i]->row_));
    }
  }
}

}  // namespace hanse

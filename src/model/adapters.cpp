#include "hanse/model/adapters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/model/tensor_reader.hpp"
#include "part_step.hpp"

namespace hanse {

namespace {

// The factors of an adapter in float64.
struct Product {
  double weight;
  std::vector<double> a, b;  // [rank, in], [out, rank]
};

// <B A, B' A'> = tr((A A'^T)(B'^T B)): sum over r, q of (sum_k A_rk A'_qk) (sum_o B_or B'_oq).
double inner(const Product& one, const Product& other, const AdapterPlace& place) {
  double sum = 0;
  for (int64_t r = 0; r < place.rank; ++r) {
    for (int64_t q = 0; q < place.rank; ++q) {
      double of_a = 0, of_b = 0;
      for (int64_t k = 0; k < place.in; ++k) {
        of_a += one.a[to_index(r * place.in + k)] * other.a[to_index(q * place.in + k)];
      }
      for (int64_t o = 0; o < place.out; ++o) {
        of_b += one.b[to_index(o * place.rank + r)] * other.b[to_index(o * place.rank + q)];
      }
      sum += of_a * of_b;
    }
  }
  return sum;
}

double squared_norm(const std::vector<Product>& products, const AdapterPlace& place) {
  double sum = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double twice = i == j ? 1 : 2;
      const double weight = twice * products[i].weight * products[j].weight;
      sum += weight * inner(products[i], products[j], place);
    }
  }
  return std::max(0.0, sum);
}

// w <- float32(w + s sum_i c_i (B_i A_i)_o) of a row o of W_0, in float64.
void add_products(const PartAdapter& adapter, int64_t o, std::span<const WeighedRow> rows,
                  const float* frozen, std::vector<double>& sum, float* w) {
  sum.assign(to_index(adapter.in), 0.0);
  for (const WeighedRow& one : rows) {
    const AdapterFactors factors = adapter.factors_in(one.row, frozen);
    for (int64_t r = 0; r < adapter.rank; ++r) {
      const double b = one.coefficient * static_cast<double>(factors.b[o * adapter.rank + r]);
      const float* a = factors.a + r * adapter.in;
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += b * static_cast<double>(a[k]);
    }
  }
  const auto scale = static_cast<double>(adapter.scale);
  for (std::size_t k = 0; k < sum.size(); ++k) {
    w[k] = static_cast<float>(static_cast<double>(w[k]) + scale * sum[k]);
  }
}

}  // namespace

Adapters::Adapters(const TrainedPart& part)
    : rank_(part.rank), scale_(part.scale), dropout_(part.dropout), moves_base_(part.moves_base) {}

Adapters::~Adapters() = default;

int64_t Adapters::count() const { return std::ssize(places_); }

void Adapters::add(const ParameterSlot& matrix, bool a_moves, bool b_moves, int64_t frozen,
                   ParameterLayout& trained) {
  PartAdapter adapter;
  static_cast<AdapterPlace&>(adapter) = {matrix.offset, matrix.shape[0], matrix.shape[1], rank_,
                                         scale_};
  adapter.name = matrix.name;
  adapter.use = matrix.use_as(matrix.name);
  const auto place = [&](const char* factor, bool moves, std::vector<int64_t> shape) {
    if (moves) {
      return FactorPlace{true, trained.append({.name = matrix.name + factor, .shape = shape})};
    }
    const int64_t at = frozen + frozen_values_;
    frozen_values_ += size_of(shape);
    return FactorPlace{false, at};
  };
  adapter.a = place(".lora_A", a_moves, {rank_, adapter.in});
  adapter.b = place(".lora_B", b_moves, {adapter.out, rank_});
  places_.push_back(std::move(adapter));
  used_.resize(places_.size());
  dropouts_.resize(places_.size());
}

void Adapters::append_to(ParameterLayout& all) {
  for (PartAdapter& adapter : places_) {
    const auto append = [&](const char* factor, bool moves, std::vector<int64_t> shape) {
      return all.append({.name = adapter.name + factor,
                         .shape = std::move(shape),
                         .trainable = moves,
                         .frozen = !moves});
    };
    adapter.named = append(".lora_A", adapter.a.moves, {rank_, adapter.in});
    append(".lora_B", adapter.b.moves, {adapter.out, rank_});
  }
}

std::vector<Model::StartPart> Adapters::take_start(const std::vector<Model::StartPart>& parts) {
  std::vector<Model::StartPart> own;
  for (const Model::StartPart& part : parts) {
    for (const PartAdapter& adapter : places_) {
      const int64_t at = part.offset - adapter.named;
      if (at < 0 || at >= adapter.factors()) continue;
      const FactorPlace& factor = at < adapter.a_size() ? adapter.a : adapter.b;
      const bool is_zero = std::ranges::all_of(part.values, [](float value) { return value == 0; });
      if (!factor.moves && is_zero) {
        throw InvalidArgument(
            "the frozen factor of " + adapter.name + " is 0 in the file: nothing could be learned",
            "model.start", "client.lora-kind = plain moves both factors");
      }
      (factor.moves ? own : given_).push_back({factor.at, part.values});
    }
  }
  return own;
}

template <class Write>
void Adapters::draw_factors(RandomStream stream, const Write& write) const {
  std::vector<float> values;
  for (const PartAdapter& adapter : places_) {
    const int64_t fan_in = adapter.starts_with_b() ? adapter.out : adapter.in;
    const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
    values.resize(to_index(adapter.random_size()));
    for (float& value : values) value = static_cast<float>((2.0 * stream.uniform() - 1.0) * bound);
    write(adapter, values);
  }
}

void Adapters::fill(RandomStream stream, std::span<float> values) {
  draw_factors(stream, [&](const PartAdapter& adapter, const auto& drawn) {
    const FactorPlace& factor = adapter.starts_with_b() ? adapter.b : adapter.a;
    if (!factor.moves) std::ranges::copy(drawn, values.begin() + factor.at);
  });
  for (const Model::StartPart& given : given_) {
    std::ranges::copy(given.values, values.begin() + given.offset);
  }
}

void Adapters::hold(std::shared_ptr<float> frozen, uint64_t seed) {
  frozen_ = std::move(frozen);
  seed_ = seed;
  given_ = {};
}

bool Adapters::hold_narrow(int64_t weight, const uint16_t* values) {
  const auto found = std::ranges::find(places_, weight, &PartAdapter::weight);
  if (found == places_.end()) return false;
  found->narrow = values;
  return !found->split;
}

void Adapters::split(TensorReader* reader, AdapterPath path) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    PartAdapter& adapter = places_[i];
    adapter.split =
        path != AdapterPath::kMerged && reader != nullptr && reader->can_split(adapter.weight);
    if (adapter.split) reader->split(adapter.weight, rank_, scale_, used_[i]);
    if (adapter.split || path != AdapterPath::kSplit) continue;
    throw InvalidArgument(reader == nullptr
                              ? "the model reads its matrices in one piece"
                              : adapter.name + " has a use that is no product and no look-up",
                          "client.lora-path", "auto or merged");
  }
}

int64_t Adapters::split_count() const {
  return std::ranges::count(places_, true, &PartAdapter::split);
}

int64_t Adapters::formed_values() const {
  int64_t values = 0;
  for (const PartAdapter& adapter : places_) values += adapter.split ? 0 : adapter.size();
  return values;
}

void Adapters::draw(RandomStream stream, std::span<float> row) const {
  draw_factors(stream, [&](const PartAdapter& adapter, const auto& drawn) {
    const bool with_b = adapter.starts_with_b();
    const FactorPlace& at_random = with_b ? adapter.b : adapter.a;
    const FactorPlace& from_zero = with_b ? adapter.a : adapter.b;
    const int64_t zeros = adapter.factors() - adapter.random_size();
    if (at_random.moves) std::ranges::copy(drawn, row.begin() + at_random.at);
    if (from_zero.moves) std::fill_n(row.begin() + from_zero.at, zeros, 0.0F);
  });
}

void Adapters::refresh(int64_t round, std::span<float> row) const {
  draw({seed_, Purpose::kAdapters, static_cast<uint64_t>(round - 1)}, row);
}

void Adapters::expand(std::span<const float> row, RandomStream* noise, float* whole) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const PartAdapter& adapter = places_[i];
    used_[i] = adapter.factors_in(row.data(), frozen_.get());
    if (noise != nullptr && dropout_ > 0) {
      used_[i] = dropouts_[i].drop(adapter, used_[i], dropout_, *noise);
    }
    if (!adapter.split) adapter.form(frozen_.get(), used_[i], whole + adapter.weight);
  }
}

std::vector<NamedAdapter> Adapters::of_row(std::span<const float> row,
                                           const ParameterLayout& layout) const {
  std::vector<NamedAdapter> found;
  for (const PartAdapter& adapter : places_) {
    const AdapterFactors factors = adapter.factors_in(row.data(), frozen_.get());
    found.push_back({*std::ranges::find(layout.slots(), adapter.weight, &ParameterSlot::offset),
                     {factors.a, factors.a + adapter.a_size()},
                     {factors.b, factors.b + adapter.b_size()}});
  }
  return found;
}

void Adapters::write(std::span<const float> row, bool merged, std::span<float> all) const {
  for (const PartAdapter& adapter : places_) {
    const AdapterFactors factors = adapter.factors_in(row.data(), frozen_.get());
    if (merged) {
      adapter.form(frozen_.get(), factors, all.data() + adapter.weight);
    } else {
      const auto behind = std::copy_n(factors.a, adapter.a_size(), all.begin() + adapter.named);
      std::copy_n(factors.b, adapter.b_size(), behind);
    }
  }
}

double Adapters::product_gap(std::span<const WeighedRow> rows) const {
  double total = 0, gap = 0, norm = 0;
  for (const WeighedRow& one : rows) total += one.coefficient;
  for (const PartAdapter& adapter : places_) {
    std::vector<Product> products;
    Product means{-1, std::vector<double>(to_index(adapter.a_size())),
                  std::vector<double>(to_index(adapter.b_size()))};
    for (const WeighedRow& one : rows) {
      const AdapterFactors factors = adapter.factors_in(one.row, frozen_.get());
      const double weight = one.coefficient / total;
      products.push_back({weight,
                          {factors.a, factors.a + adapter.a_size()},
                          {factors.b, factors.b + adapter.b_size()}});
      const Product& last = products.back();
      for (std::size_t k = 0; k < last.a.size(); ++k) means.a[k] += weight * last.a[k];
      for (std::size_t k = 0; k < last.b.size(); ++k) means.b[k] += weight * last.b[k];
    }
    norm += squared_norm(products, adapter);
    products.push_back(std::move(means));
    gap += squared_norm(products, adapter);
  }
  return norm > 0 ? std::sqrt(gap / norm) : std::numeric_limits<double>::quiet_NaN();
}

void Adapters::merge(Communicator& host, std::span<const WeighedRow> rows) {
  int64_t all = 0;  // rows of all W_0
  for (const PartAdapter& adapter : places_) all += adapter.out;
  const int64_t first = all * host.rank() / host.size();
  const int64_t last = all * (host.rank() + 1) / host.size();
  host.barrier();  // nobody reads W_0 any more
  int64_t begin = 0;
  std::vector<double> sum;
  for (const PartAdapter& adapter : places_) {
    const int64_t to = std::min(last - begin, adapter.out);
    for (int64_t o = std::max<int64_t>(0, first - begin); o < to; ++o) {
      float* const w = frozen_.get() + adapter.weight + o * adapter.in;
      add_products(adapter, o, rows, frozen_.get(), sum, w);
    }
    begin += adapter.out;
  }
  host.barrier();
}

std::vector<float> Adapters::base() const {
  std::vector<float> values;
  for (const PartAdapter& adapter : places_) {
    const float* begin = frozen_.get() + adapter.weight;
    values.insert(values.end(), begin, begin + adapter.size());
  }
  return values;
}

void Adapters::set_base(Communicator& host, std::span<const float> values) {
  host.barrier();
  for (const PartAdapter& adapter : places_) {
    if (host.rank() != 0) break;
    std::copy_n(values.begin(), adapter.size(), frozen_.get() + adapter.weight);
    values = values.subspan(to_index(adapter.size()));
  }
  host.barrier();
}

}  // namespace hanse

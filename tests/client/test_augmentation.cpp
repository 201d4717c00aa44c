// What training sees of images, against a slow reference that looks up every pixel.
#include <algorithm>
#include <bit>
#include <fstream>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "client/batch_stream.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/communicator.hpp"
#include "model/device/work_runs.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

struct Image {
  int64_t channels, height, width;

  int64_t size() const { return channels * height * width; }
};

Federation images(const std::vector<int64_t>& shape, int64_t samples = 11) {
  DataOptions data;
  data.kind = "random";
  data.shape = shape;
  data.classes = 3;
  data.test_fraction = 0;
  FederationOptions options;
  options.clients = 3;
  options.samples = samples;
  return Federation::load(data, options, 5, *make_single_communicator());
}

const ClientTask kTask{.client = 1, .round = 4, .seed = 9};

RandomStream stream_of(const ClientTask& task) {
  return {task.seed, Purpose::kAugmentation, static_cast<uint64_t>(task.round),
          static_cast<uint64_t>(task.client)};
}

// One sample, with the draws that come next.
std::vector<float> reference(const float* image, const Image& shape, const AugmentationOptions& o,
                             RandomStream& stream) {
  const int64_t h = shape.height, w = shape.width;
  const int64_t down = o.crop > 0 ? stream.below(2 * o.crop + 1) - o.crop : 0;
  const int64_t right = o.crop > 0 ? stream.below(2 * o.crop + 1) - o.crop : 0;
  const bool flips = o.flip > 0 && stream.uniform() < o.flip;
  const int64_t top = o.cutout > 0 ? stream.below(h) - o.cutout / 2 : h;
  const int64_t left = o.cutout > 0 ? stream.below(w) - o.cutout / 2 : w;
  std::vector<float> found;
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = 0; y < h; ++y) {
      for (int64_t x = 0; x < w; ++x) {
        const int64_t from_y = y + down, from_x = (flips ? w - 1 - x : x) + right;
        const bool inside = from_y >= 0 && from_y < h && from_x >= 0 && from_x < w;
        const bool is_cut = y >= top && y < top + o.cutout && x >= left && x < left + o.cutout;
        found.push_back(inside && !is_cut ? image[(c * h + from_y) * w + from_x] : 0.0F);
      }
    }
  }
  return found;
}

// Each change alone, and several together.
const std::vector<AugmentationOptions> kChanges = {
    {.crop = 2},
    {.flip = 1},
    {.flip = 0.5},
    {.cutout = 3},
    {.cutout = 2},
    {.crop = 1, .flip = 0.5, .cutout = 1},
    {.mixup = 0.4},
    {.crop = 2, .flip = 0.3, .cutout = 2, .mixup = 1.5},
    {.crop = 2, .flip = 0.3, .cutout = 3, .mixup = 1.5}};

TEST(Augmentation, EveryPixelIsWhereItBelongs) {
  for (const Image& shape : {Image{1, 5, 4}, Image{3, 3, 7}, Image{2, 6, 6}}) {
    const Federation federation = images({shape.channels, shape.height, shape.width});
    for (const AugmentationOptions& options : kChanges) {
      SCOPED_TRACE(augmentation_key(options));
      ClientOptions client{{.epochs = 2, .batch = 4}};
      BatchStream plain(client, federation);
      client.augmentation = options;
      BatchStream augmented(client, federation);
      plain.start(kTask);
      augmented.start(kTask);
      RandomStream stream = stream_of(kTask);
      for (int64_t step = 0; step < plain.steps(); ++step) {
        const Batch before = plain.next(), after = augmented.next();
        ASSERT_EQ(after.rows, before.rows);
        std::vector<std::vector<float>> expected;
        for (int64_t i = 0; i < before.rows; ++i) {
          expected.push_back(reference(before.features + i * shape.size(), shape, options, stream));
        }
        double share = 1;
        if (options.mixup > 0) {
          const double a = stream.gamma(options.mixup), b = stream.gamma(options.mixup);
          share = a / (a + b);
          ASSERT_NE(after.mixed, nullptr);
          EXPECT_EQ(after.mixed->share, share);
        } else {
          EXPECT_EQ(after.mixed, nullptr);
        }
        for (int64_t i = 0; i < before.rows; ++i) {
          const int64_t next = (i + 1) % before.rows;
          EXPECT_EQ(after.labels[i], before.labels[i]);
          if (options.mixup > 0) {
            EXPECT_EQ(after.mixed->labels[i], before.labels[next]);
          }
          for (int64_t k = 0; k < shape.size(); ++k) {
            const auto at = static_cast<std::size_t>(k);
            const double own = static_cast<double>(expected[static_cast<std::size_t>(i)][at]);
            const double other = static_cast<double>(expected[static_cast<std::size_t>(next)][at]);
            EXPECT_NEAR(after.features[i * shape.size() + k], share * own + (1 - share) * other,
                        options.mixup > 0 ? 1e-6 : 0);
          }
        }
      }
    }
  }
}

// Images with two labels each.
Federation with_two_labels(const Image& shape) {
  const ScratchFolder folder;
  std::ofstream out(folder / "table.csv");
  for (int64_t i = 0; i < shape.size(); ++i) out << "p" << i << ",";
  out << "even,large\n";
  for (int64_t sample = 0; sample < 23; ++sample) {
    for (int64_t i = 0; i < shape.size(); ++i) out << 100 * sample + i << ",";
    out << sample % 2 << "," << (sample > 9 ? 1 : 0) << "\n";
  }
  out.close();
  return Federation::load({.kind = "csv",
                           .path = folder / "table.csv",
                           .test_fraction = 0,
                           .label_column = "even,large",
                           .shape = {shape.channels, shape.height, shape.width}},
                          {.clients = 3}, 5, *make_single_communicator());
}

// Samples as a device has them, and behind them those of a step of C clients.
struct Samples {
  Row features, targets, other_targets, shares;
  std::vector<int32_t> labels, other_labels;

  Samples(const Federation& federation, int64_t more)
      : features(to_index((federation.samples() + more) * federation.sample_values()), 9),
        targets(federation.targets().begin(), federation.targets().end()),
        shares(to_index(federation.samples() + more), 9),
        labels(federation.labels().begin(), federation.labels().end()) {
    federation.copy({0, federation.samples()}, features.data());
    const std::size_t values = to_index(federation.label_form().values) * shares.size();
    if (!labels.empty()) labels.resize(values, 9);
    if (!targets.empty()) targets.resize(values, 9);
    other_labels.assign(labels.size(), 9);
    other_targets.assign(targets.size(), 9);
  }
};

template <class Value>
Value* or_null(std::vector<Value>& values) {
  return values.empty() ? nullptr : values.data();
}

AugmentWork work_on(Samples& samples, const Federation& federation, const Image& shape,
                    const AugmentationOptions& options, int64_t batch) {
  const bool mixes = options.mixup > 0;
  return {.size = {static_cast<int32_t>(shape.height), static_cast<int32_t>(shape.width),
                   static_cast<int32_t>(options.cutout)},
          .height = shape.height,
          .width = shape.width,
          .values = static_cast<int32_t>(shape.size()),
          .batch = batch,
          .first = federation.samples(),
          .features = samples.features.data(),
          .label_values = federation.label_form().values,
          .labels = or_null(samples.labels),
          .other_labels = mixes ? or_null(samples.other_labels) : nullptr,
          .targets = or_null(samples.targets),
          .other_targets = mixes ? or_null(samples.other_targets) : nullptr,
          .shares = mixes ? samples.shares.data() : nullptr};
}

// Those from `first` on against a host's batch, bit by bit; none: they are as they were.
template <class Value>
void expect_values(const Value* expected, const std::vector<Value>& found, int64_t first,
                   int64_t n) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < n && !found.empty(); ++i) {
    const Value value = expected != nullptr ? expected[i] : 9;
    const auto bits = [](Value x) { return std::bit_cast<uint32_t>(x); };
    wrong += bits(found[to_index(first + i)]) != bits(value) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0);
}

void expect_bits_of_host(const Federation& federation, const Image& shape,
                         const AugmentationOptions& options, int64_t batch) {
  const std::vector<ClientTask> tasks{{.client = 2, .round = 4, .seed = 9},
                                      {.client = 0, .round = 4, .seed = 9}};
  const auto clients = std::ssize(tasks);
  const int64_t places = batch + 1;  // of each client
  ClientOptions client{{.epochs = 2, .batch = batch}};
  client.augmentation = options;
  std::vector<BatchStream> host, device;
  for (auto* streams : {&host, &device}) {
    streams->reserve(tasks.size());
    for (const ClientTask& task : tasks) streams->emplace_back(client, federation).start(task);
  }
  const int64_t label_values = federation.label_form().values;
  for (int64_t step = 0; step < host[0].steps(); ++step) {
    Samples samples(federation, clients * places);
    std::vector<ImageChange> changes(to_index(clients * places));
    std::vector<int64_t> counts;
    for (std::size_t c = 0; c < tasks.size(); ++c) {
      const auto [begin, order] = device[c].next_samples();
      const auto own = std::span(changes).subspan(c * to_index(places), order.size());
      for (std::size_t i = 0; i < order.size(); ++i) own[i].place = begin + order[i];
      device[c].draw(own);
      counts.push_back(std::ssize(order));
    }
    AugmentWork work = work_on(samples, federation, shape, options, places);
    work.counts = counts.data();
    work.changes = changes.data();
    run_backwards(work, clients * places);
    for (std::size_t c = 0; c < tasks.size(); ++c) {
      const Batch expected = host[c].next();
      const MixedLabels mixed = expected.mixed != nullptr ? *expected.mixed : MixedLabels{};
      ASSERT_EQ(counts[c], expected.rows);
      const int64_t first = federation.samples() + static_cast<int64_t>(c) * places;
      const auto expect = [&](const auto* values, const auto& found, int64_t width) {
        expect_values(values, found, first * width, expected.rows * width);
        using Values = decltype(values);
        expect_values(Values{}, found, (first + expected.rows) * width,
                      (places - expected.rows) * width);
      };
      const Row shares(to_index(expected.rows), static_cast<float>(mixed.share));
      expect(expected.features, samples.features, shape.size());
      expect(expected.labels, samples.labels, label_values);
      expect(expected.targets, samples.targets, label_values);
      expect(mixed.labels, samples.other_labels, label_values);
      expect(mixed.targets, samples.other_targets, label_values);
      expect(options.mixup > 0 ? shares.data() : nullptr, samples.shares, 1);
    }
  }
}

TEST(Augmentation, TheDeviceMakesTheBitsOfTheHost) {
  for (const Image& shape : {Image{1, 5, 4}, Image{3, 3, 7}, Image{2, 6, 6}, Image{3, 17, 13}}) {
    const Federation federation = images({shape.channels, shape.height, shape.width});
    for (const AugmentationOptions& options : kChanges) {
      SCOPED_TRACE(augmentation_key(options));
      for (const int64_t batch : {1, 4, 5}) expect_bits_of_host(federation, shape, options, batch);
    }
  }
  const Image thin{1, 1, 9}, small{2, 3, 3};
  expect_bits_of_host(images({1, 1, 9}), thin, {.flip = 0.5, .cutout = 1, .mixup = 0.3}, 4);
  expect_bits_of_host(with_two_labels(small), small, {.crop = 1, .mixup = 0.7}, 4);
}

// All moves are equally likely, and half of the images are flipped.
TEST(Augmentation, DrawsAreUniform) {
  const Federation federation = images({1, 7, 7}, 2000);
  ClientOptions client{{.batch = 0}};
  client.augmentation = {.crop = 1, .flip = 0.25};
  BatchStream augmented(client, federation), plain(ClientOptions{{.batch = 0}}, federation);
  augmented.start(kTask);
  plain.start(kTask);
  const Batch after = augmented.next(), before = plain.next();
  std::vector<int> moves(9, 0);
  int flipped = 0;
  for (int64_t i = 0; i < after.rows; ++i) {
    const float* to = after.features + 49 * i;
    for (int64_t move = 0; move < 18; ++move) {
      const int64_t down = move % 3 - 1, right = move / 3 % 3 - 1, y = 3 + down, x = 3 + right;
      const bool flips = move >= 9;
      const float* from = before.features + 49 * i;
      // The middle and what is beside it tell where the image has come from.
      if (to[24] != from[7 * y + x] || to[25] != from[7 * y + x + (flips ? -1 : 1)] ||
          to[17] != from[7 * (y - 1) + x]) {
        continue;
      }
      ++moves[static_cast<std::size_t>(move % 9)];
      flipped += flips;
      break;
    }
  }
  EXPECT_EQ(std::accumulate(moves.begin(), moves.end(), 0), after.rows);
  EXPECT_NEAR(flipped / static_cast<double>(after.rows), 0.25, 0.04);
  for (const int count : moves) EXPECT_NEAR(count / static_cast<double>(after.rows), 1 / 9.0, 0.03);
}

// Client, round and seed fix the draws. One sample has the same place in every order.
TEST(Augmentation, DrawsAreTheClientsOwn) {
  const Federation federation = images({1, 6, 6}, 1);
  ClientOptions client{{.batch = 0}};
  client.augmentation = {.crop = 2, .cutout = 2};
  BatchStream batches(client, federation);
  const auto first = [&](const ClientTask& task) {
    batches.start(task);
    const Batch batch = batches.next();
    return std::vector<float>(batch.features, batch.features + 36 * batch.rows);
  };
  const auto expected = first(kTask);
  EXPECT_NE(first({.client = 1, .round = 5, .seed = 9}), expected);
  EXPECT_NE(first({.client = 1, .round = 4, .seed = 8}), expected);
  EXPECT_EQ(first(kTask), expected);
}

TEST(Augmentation, RefusesWhatIsNoImage) {
  const auto refused = [](const std::vector<int64_t>& shape, const AugmentationOptions& options,
                          std::initializer_list<std::string> words) {
    const Federation federation = images(shape);
    expect_error<InvalidArgument>(
        [&] {
          ClientOptions client;
          client.augmentation = options;
          BatchStream(client, federation);
        },
        words);
  };
  refused({12}, {.flip = 0.5}, {"{12} are no images", "client.flip"});
  refused({1, 4, 9}, {.crop = 4}, {"border of 4", "4 x 9", "client.crop"});
  refused({1, 9, 4}, {.cutout = 5}, {"square of 5", "9 x 4", "client.cutout"});
}

}  // namespace
}  // namespace hanse

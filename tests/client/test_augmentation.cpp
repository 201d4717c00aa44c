// What training sees of images, against a slow reference that looks up every pixel.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "client/batch_stream.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "support/errors.hpp"

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

TEST(Augmentation, EveryPixelIsWhereItBelongs) {
  const std::vector<AugmentationOptions> cases = {
      {.crop = 2},    {.flip = 1},
      {.flip = 0.5},  {.cutout = 3},
      {.cutout = 2},  {.crop = 1, .flip = 0.5, .cutout = 1},
      {.mixup = 0.4}, {.crop = 2, .flip = 0.3, .cutout = 2, .mixup = 1.5}};
  for (const Image& shape : {Image{1, 5, 4}, Image{3, 3, 7}, Image{2, 6, 6}}) {
    const Federation federation = images({shape.channels, shape.height, shape.width});
    for (const AugmentationOptions& options : cases) {
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

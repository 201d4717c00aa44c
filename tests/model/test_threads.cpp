#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <cblas.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"
#include "support.hpp"

namespace hanse {
namespace {

// One thread for every test of the program, as in a run: dense layers choose tiles only then.
class OneThread : public ::testing::Environment {
 public:
  void SetUp() override {
    torch_library();
    set_model_threads(1);
  }
};
const auto* const one_thread = ::testing::AddGlobalTestEnvironment(new OneThread);

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// CPU seconds that other threads of the process spend while `model` trains, as a share of ours.
double share_of_other_threads(Model& model, const Samples& samples) {
  std::vector<float> row = initial_row(model);
  RandomStream noise = noise_stream();
  const auto train = [&](double seconds) {
    const double begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - begin < seconds) {
      model.sgd_step(row, samples.batch(), noise, 1e-3, 0.0);
    }
  };
  train(0.2);  // the pool of OpenBLAS spins for a while after its start
  const double process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double thread = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  train(0.2);
  const double ours = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - thread;
  return (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - process - ours) / ours;
}

TEST(Threads, OneMeansOne) {
  for (const std::string kind : {"mlp", "cnn-cifar", "cnn-leaf"}) {
    const auto model = make_model(model_options(kind, "cross-entropy"), {3, 32, 32}, 10);
    const Samples samples({3, 32, 32}, 10, 64);
    set_model_threads(2);
    EXPECT_EQ(at::get_num_threads(), 2);
    EXPECT_GT(share_of_other_threads(*model, samples), 0.1) << kind;
    set_model_threads(1);
    EXPECT_LT(share_of_other_threads(*model, samples), 0.05) << kind;
  }
}

TEST(Threads, TwoComputeTheSameWithinRounding) {
  const auto model = make_model(model_options("mlp", "cross-entropy"), {784}, 10);
  const Samples samples({784}, 10, 20);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient one = loss_and_gradient(*model, row, samples.batch());
  set_model_threads(2);
  const LossAndGradient two = loss_and_gradient(*model, row, samples.batch());
  set_model_threads(1);
  EXPECT_NEAR(two.loss, one.loss, 1e-6);
  expect_close(model->layout(), two.gradient, one.gradient, 1e-5);
  EXPECT_EQ(loss_and_gradient(*model, row, samples.batch()).gradient, one.gradient);
}

#if defined(__x86_64__)

TEST(Threads, TakeSubnormalsForZeroWhereTheCallerDoes) {
  const char* at_start = std::getenv("OPENBLAS_NUM_THREADS");
  if (!at_start || std::string(at_start) != "1") {
    GTEST_SKIP() << "OpenBLAS has made threads before; OPENBLAS_NUM_THREADS=1 leaves them to us";
  }
  constexpr int kSide = 512;
  const std::vector<float> small(kSide * kSide, 1e-20F);
  std::vector<float> products(kSide * kSide, 1);
  set_model_threads(2);
  {
    const FlushSubnormals flush;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSide, kSide, kSide, 1, small.data(),
                kSide, small.data(), kSide, 0, products.data(), kSide);
  }
  set_model_threads(1);
  EXPECT_EQ(products, std::vector<float>(kSide * kSide, 0));
}

#endif

TEST(Threads, NumberMustBePositive) {
  EXPECT_THROW(set_model_threads(0), InvalidArgument);
  EXPECT_THROW(set_model_threads(-1), InvalidArgument);
}

TEST(Threads, NameTheKernels) {
  EXPECT_EQ(kernel_family().find("unknown"), std::string::npos) << kernel_family();
  EXPECT_EQ(kernel_family().find("openblas "), 0u);
  EXPECT_NE(kernel_family().find(", torch "), std::string::npos) << kernel_family();
  const std::string version = torch_library().version();
  EXPECT_GE(std::count(version.begin(), version.end(), '.'), 1) << version;
}

}  // namespace
}  // namespace hanse

// Steps of several clients side by side on one device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/client/evaluator.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/movement.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/cohort.hpp"

namespace hanse {

class BatchStream;
class CohortSizes;
class FrozenCache;

// The most samples that a mini-batch of any client has: a size that the job fixes.
int64_t largest_batch(const LocalWork& work, const Federation& federation);

// What make_sgd() does with one client after the other, for up to C at once, on the same
// mini-batches: rows and losses agree with its within float tolerance. CohortUpdate makes other
// updates of it. A client with fewer steps than others of its cohort, and an empty place, rest in
// the steps of the others. The result depends on the tasks, their places and the number of places,
// but not on who computes it.
//
// All samples of the federation stand on the device, as float32, where they take no more than
// `sample_bytes` there; else each mini-batch goes there when it is due, from C mini-batches in the
// host's memory. The bits are the same. A device that has all samples also augments them, in each
// step, with the host's draws and bits. Where it has not, and with attackers' samples or `frozen`,
// the host changes what training changes, and each mini-batch goes there when it is due.
//
// Cost: as many steps as the client with the most of them takes, each for the clients that still
// have one, rounded up to C, C / 2, C / 4, ...: they are few where the tasks stand in the order of
// their steps, the longest first.
//
// As an Evaluator it evaluates theta(), in batches of up to kEvaluationRows, on the device.
class CohortTraining final : public Evaluator {
 public:
  static constexpr int64_t kEvaluationRows = 512;

  // `federation` and `frozen` must outlive the object. `starts`, `part`: Cohort::Settings;
  // `frozen`: what the samples are in the device's memory, unless null. Throws InvalidArgument as
  // TorchLibrary::make_cohort does.
  CohortTraining(const ClientOptions& options, const Federation& federation,
                 const ModelOptions& model, const std::string& device, int64_t clients,
                 int64_t sample_bytes, KernelStarts starts = {}, const PartModel* part = nullptr,
                 FrozenCache* frozen = nullptr);
  ~CohortTraining() override;

  int64_t clients() const { return clients_; }  // C
  const std::string& device() const { return device_; }

  // The models on the device: theta(), the received one, and rows(), the trained ones in the order
  // of the tasks, behind them theta().
  Cohort& cohort() { return *cohort_; }

  // From now on steps move what `movement` says, of so many trained values.
  void move_by(const Movement& movement, int64_t trained);

  // Makes a step of all clients, the one of that number in the cohort's table and of `step`, from
  // 1, in the round. It must count the losses.
  using Step = std::function<void(int64_t number, int64_t step)>;

  // Trains clients from theta(), or as `start` has it, by Cohort::steps() or by steps of the
  // caller's; of a task it reads client, round, repeat, seed, steps and squares, and moves the
  // moments in front of its state, where clients keep them: then it waits for the device. An
  // outcome for each task, whose loss stays on the device, in Cohort::losses(). Does not wait for
  // the last steps. REQUIRES: 1 to C tasks.
  std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                   const Cohort::Start& start = {}, const Step& make_step = {});

  // Fills in the outcomes' losses, from those sums [C], and the squares that tasks asked for.
  void finish(std::span<const double> losses, std::span<ClientOutcome> outcomes) const;

  EvaluationSums range(SampleRange range, SampleResults results = {}) override;
  void ask(SampleRange range, SampleResults results, EvaluationSums& sums) override;
  void finish() override;
  EvaluationSums chosen(int64_t begin, std::span<const int32_t> order) override;

 private:
  // Who changes samples in training.
  enum class Changes { kNone, kOnHost, kOnDevice };

  // Samples that the device has room for, when it does not hold all.
  int64_t window() const { return std::max(clients_ * batch_, kEvaluationRows); }
  int64_t places_of_samples() const;
  // The first of them for a client's changed samples.
  int64_t first_changed(std::size_t place) const {
    return places_of_samples() - (clients_ - static_cast<int64_t>(place)) * batch_;
  }
  void upload_all();
  void locate(int64_t begin, std::span<const int32_t> order, int64_t place);
  void bring(int64_t samples);
  void next_batch(std::size_t step, std::size_t place);
  int64_t list_batch(std::size_t place, int64_t first);
  void change(std::size_t place, int64_t first, int64_t samples);
  Changes who_changes(const ClientOptions& options) const;
  int64_t put_changed(std::size_t place);
  int64_t acting(std::size_t step) const;
  void make_steps(int64_t count, int64_t made, const Step& make_step);
  void evaluate(int64_t begin, std::span<const int32_t> order, SampleResults results,
                EvaluationSums& sums);

  // What the device has of the samples.
  struct Source {
    const Federation& federation;
    FrozenCache* frozen;  // null: themselves

    int64_t values() const;  // of a sample
    void read(const BatchPlaces& places, int64_t rows, float* out) const;
  };

  // CohortSteps of the steps that are put at once.
  struct Table {
    std::vector<int64_t> counts;      // [steps, C] samples
    std::vector<StepSize> sizes;      // [steps, C]
    std::vector<ImageChange> images;  // [steps, C, B] where the device changes them
  };

  std::unique_ptr<CohortSizes> own_sizes_;
  Source source_;
  std::string device_;
  int64_t clients_;  // C
  int64_t batch_;    // B
  bool holds_all_;
  Changes changes_;
  bool squares_ = false;              // those of the last tasks are wanted
  std::vector<BatchStream> streams_;  // [C]
  std::unique_ptr<Cohort> cohort_;
  std::vector<Cohort::NoiseKey> noise_;  // [C]
  std::vector<float> class_weights_;     // [C, classes]; empty: all 1
  std::vector<int64_t> steps_;           // [C] of the last tasks
  std::vector<int64_t> steps_left_;      // [C]
  Table table_;
  std::vector<int64_t> rows_;  // places on the device: [steps at once, C, B], or [window]
  // On their way to the device.
  GatheredBatch staged_;                // [window]; empty when the device holds all
  std::vector<EvaluationSums*> asked_;  // where the sums go that Cohort::evaluate() finds
};

}  // namespace hanse

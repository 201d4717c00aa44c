// A model is a pure function of one parameter row: P contiguous float32.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/data/label_form.hpp"
#include "hanse/model/batch.hpp"
#include "hanse/model/gradient_record.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/options.hpp"
#include "hanse/model/received.hpp"
#include "hanse/model/row_step.hpp"
#include "hanse/model/whole_numbers.hpp"

namespace hanse {

template <class Options>
struct KindRow;       // base/kind.hpp
struct FormerChoice;  // base/former_choice.hpp

// A model keeps work buffers and traces of its last gradient: not even evaluate() may run beside
// another of its methods, and each thread has an object of its own. A method that is not const
// keeps nothing of its arguments unless it says so.
class Model {
 public:
  virtual ~Model() = default;

  const ParameterLayout& layout() const { return layout_; }
  int64_t n_params() const { return layout_.n_params(); }

  // Fills the row: every tensor uniform in +-1/sqrt(fan_in), drawn in the row's order, or the
  // constant it starts with; or zeros, which draws nothing. Given values take their places.
  void initialize(std::span<float> row, RandomStream& stream) const;
  void start_from_zeros() { from_zeros_ = true; }
  struct StartPart {
    int64_t offset;
    std::vector<float> values;
  };
  void start_from(std::vector<StartPart> parts) { start_ = std::move(parts); }
  // Frees the values that initialize() takes, which must not be called again.
  virtual void forget_start() { start_ = {}; }

  // Mean loss over the batch and its gradient with respect to the row. Overwrites `gradient`, which
  // may be the row: that spares a pass over memory that is not in the cache. `noise` feeds dropout.
  // Shapes: row [P], gradient [P], 0 for buffers. The result depends on nothing else, and has the
  // same bits on every call with the same shapes.
  virtual double loss_and_gradient(std::span<const float> row, const Batch& batch,
                                   RandomStream& noise, std::span<float> gradient) = 0;

  // Writes the running means of batch norm that the last loss_and_gradient() found into the row's
  // buffers. Whoever steps by a gradient calls it after the step, which may overwrite buffers.
  // REQUIRES: no other gradient and no evaluation of this object between the two.
  virtual void move_buffers(std::span<float> /*row*/) const {}

  // One step of plain SGD: row <- (1 - lr * weight_decay) row - lr * gradient, and buffers moved;
  // returns the mean loss before the step. The gradient's kernels update the row, and the gradient
  // is never stored.
  virtual double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                          double weight_decay) = 0;

  // A step by another rule, which moves `row` part by part.
  virtual double step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                         RowStep& step);

  // sum [trainable] <- the sum over the samples of c_i g_i, with g_i the gradient of sample i alone
  // and c_i = min(1, clip / |g_i|) or a little less; returns the mean loss. What a sample adds is
  // never longer than `clip`, is 0 where |g_i| is not finite, and a function of that sample and its
  // place, the row, the batch's rows and `noise` alone. Beside it, rounding moves the sum by
  // (0x1.01p-11 + rows (rows + 3) 2^-52) clip at most when one sample's values change. Here: a pass
  // a sample. REQUIRES: batch.mixed and class_weights are null; a model without buffers.
  virtual double clipped_gradient(std::span<const float> row, const Batch& batch,
                                  const SampleSizes& sizes, RandomStream& noise, double clip,
                                  std::span<double> sum);

  // The gradient of loss_and_gradient() in factors, for less memory than a row takes when the batch
  // is small against the layers. REQUIRES: record_product_cost(rows) > 0.
  virtual double record_gradient(std::span<const float> row, const Batch& batch,
                                 RandomStream& noise, GradientRecord& record);
  // Multiplications of an inner product of two such gradients over batches of `rows`; rows take P.
  // 0: this model has no factors.
  virtual int64_t record_product_cost(int64_t /*rows*/) const { return 0; }

  // Tells what a client has received, before its first step: a loss that compares with it (such as
  // train_for's) copies what it needs. It holds until the next call.
  virtual void receive(const Received& /*received*/) {}

  // Values of a sample's representation, what the last dense layer reads: of each position of a
  // sequence. 0: the network has none that is told.
  int64_t representation_width() const { return representation_width_; }
  // to [rows, positions, representation_width()] <- the batch's, in evaluation mode.
  // REQUIRES: representation_width() > 0.
  virtual void represent(std::span<const float> /*row*/, const Batch& /*batch*/,
                         std::span<float> /*to*/) {}

  // out [P] <- H v, H [P, P] the Hessian of what loss_and_gradient() computes over the batch, v
  // [P]; ReLU counts as linear around every output. The bits depend on the arguments alone. Cost:
  // linear and mlp about 2 gradients, networks 3. REQUIRES: has_hessian().
  virtual void hessian_vector(std::span<const float> row, const Batch& batch,
                              std::span<const float> v, std::span<float> out);
  // False for models whose loss is random (dropout), and for those that have their gradient alone.
  virtual bool has_hessian() const { return false; }
  // Why not; continues "an update needs the Hessian of the loss, ".
  virtual std::string why_no_hessian() const { return "which this model does not compute"; }

  // Loss and correct predictions in evaluation mode (no dropout). REQUIRES: two classes for scores,
  // classes for ranks and classes.
  virtual EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                                  SampleResults results = {}) = 0;

  // Mean loss, in evaluation mode, of every row of rows [n, P] on every batch: losses [batches, n].
  // The bits of (b, j) do not depend on the other batches. Models override it where rows can share
  // a product.
  virtual void cross_losses(std::span<const float> rows, std::span<const Batch> batches,
                            std::span<double> losses);

  // Floating-point operations of the layers' products in all gradients and steps so far; 0 where a
  // model does not know its layers (graph), trains a part of them, or works on a GPU.
  double flops() const { return flops_; }
  double gradient_flops() const { return gradient_flops_; }  // of one gradient of a sample

  // Bytes that this object keeps for the tensors of a pass, after the batches so far: more passes
  // of their sizes take no more. 0: it does not count them.
  virtual int64_t pass_bytes() const { return 0; }

  virtual int64_t evaluation_rows() const { return 256; }  // the most that evaluate() should get

  // Features are tokens, whole numbers in [0, vocabulary()); 0: they are any numbers.
  virtual int64_t vocabulary() const { return 0; }
  // Features that are whole numbers: tokens, or those that a network of a file converts.
  virtual std::vector<WholeNumbers> whole_numbers() const;

  // The rows of the largest batch for which the writer of the model's file has compared the file
  // with its module; 0: not told, or no file.
  virtual int64_t compared_rows() const { return 0; }

 protected:
  virtual void draw(std::span<float> row, RandomStream& stream) const;

  ParameterLayout layout_;
  bool from_zeros_ = false;
  double flops_ = 0, gradient_flops_ = 0;
  int64_t representation_width_ = 0;

 private:
  std::vector<StartPart> start_;
};

// Builds a model for samples of `sample_shape` with labels of that form.
// Throws InvalidArgument when kind, loss and data do not fit together (says what the model needs).
std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const std::vector<int64_t>& sample_shape,
                                  const LabelForm& labels);

// Trains the model for a loss of the user's own in the place of options.loss: a TorchScript module
// whose forward returns the loss of a batch. Its arguments are named logits [rows, outputs], labels
// [rows] (int64; several values: [rows, values]; targets: float32), sample_weights [rows] (their
// classes' weights, or 1), row and received_row [trainable] or received_logits [rows, outputs];
// others are not computed. Losses and gradients follow it, evaluations and hessian_vector() do not.
// REQUIRES: a model of make_model() for data of that form; no record_gradient() afterwards. Cost of
// a step: the module and its gradient, a forward pass for received_logits, a pass over the row for
// row. Throws InvalidArgument: a missing or unreadable file, an argument of another name, a module
// that makes no loss of such logits.
void train_for(Model& model, const std::string& path, const LabelForm& labels);

// Trains the model for torch's cross-entropy with label smoothing and the batches' class weights:
//   sum_i ((1 - s) w_{y_i} l_{i, y_i} + s/C sum_c w_c l_{i, c}) / sum_i w_{y_i}
// with l = -log softmax(z), and 0 where all weights of the batch are 0. Otherwise as train_for().
// Throws InvalidArgument for another loss than cross-entropy.
void smooth_labels(Model& model, double share);

// The kinds that make_model() knows, and whether one of them loads torch_library().
std::vector<KindRow<ModelOptions>> model_kinds();
std::vector<FormerChoice> former_model_kinds();
bool needs_torch(const std::string& kind);

// Do adapters of the kind go with model.precision = bfloat16? Throws InvalidArgument for an unknown
// kind.
bool has_narrow_adapters(const std::string& kind);

// Is a model of these options one dense layer? Throws InvalidArgument for an unknown kind.
bool is_linear(const ModelOptions& options);

// The file that a model of this kind is read from; empty: there is none.
std::string model_file(const ModelOptions& options);

}  // namespace hanse

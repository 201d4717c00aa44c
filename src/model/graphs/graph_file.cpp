#include "graphs/graph_file.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/model/layout.hpp"
#include "weights/elements.hpp"

namespace hanse {

namespace {

using nlohmann::json;
using Kind = GraphArgument::Kind;

constexpr const char* kNote = "hanse.graph";
constexpr const char* kWriter = "hanse.export(module, sample, path) in Python writes one";
constexpr int64_t kFormat = 1;
constexpr int64_t kLongestText = 64 << 20, kMostNodes = 1'000'000, kMostItems = 100'000;
constexpr int64_t kDeepestList = 3, kLongestName = 500, kMostAxes = kMostGraphAxes;
// Sizes that a graph may name: products of two stay integers.
constexpr int64_t kLargestNumber = int64_t{1} << 31;

// Letters, digits and what joins them.
bool is_word(const std::string& text) {
  return std::ssize(text) <= kLongestName && std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 ||
                  std::string_view("_.,-> ").find(c) != std::string_view::npos;
         });
}

class GraphReader {
 public:
  explicit GraphReader(const std::string& path) : path_(path) {
    file_.tensors = std::make_shared<const SafetensorsFile>(path, kWriter);
    for (const StoredTensor& tensor : file_.tensors->tensors()) tensors_[tensor.name] = &tensor;
  }

  GraphFile read() {
    const json note = parsed();
    if (integer(field(note, "format", "the note"), "format") != kFormat) {
      refuse(fmt::format("its format is not {}, which this Hanse reads", kFormat));
    }
    file_.sample = shape(note, "sample", 1, kMostAxes);
    file_.output = shape(note, "output", 1, 2);
    if (note.contains("representation")) read_representation(note);
    if (note.contains("compared")) file_.compared = integer(note["compared"], "compared");
    read_parameters(list(note, "parameters", "the note"));
    read_buffers(list(note, "buffers", "the note"));
    for (const json& name : list(note, "constants", "the note")) {
      file_.constants.push_back(&tensor(text(name, "constants"), {"F32", "I64", "BOOL", "U8"}));
    }
    const json& graphs = field(note, "graphs", "the note");
    read_evaluation(field(graphs, "evaluation", "graphs"));
    read_training(field(graphs, "training", "graphs"));
    return std::move(file_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument("no graph of a network: " + what, path_, kWriter);
  }

  json parsed() const {
    const auto note = file_.tensors->notes().find(kNote);
    if (note == file_.tensors->notes().end()) {
      refuse(fmt::format("these safetensors have no note {}", kNote));
    }
    if (std::ssize(note->second) > kLongestText) refuse("its graph is too long");
    require_memory(std::ssize(note->second) * 32, "its graph may take", path_, "");
    json parsed = json::parse(note->second, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) refuse("its graph is no JSON");
    return parsed;
  }

  const json& field(const json& of, const char* name, const std::string& where) const {
    const auto found = of.is_object() ? of.find(name) : of.end();
    if (!of.is_object() || found == of.end()) refuse(fmt::format("{} has no {}", where, name));
    return *found;
  }

  const json& list(const json& of, const char* name, const std::string& where) const {
    const json& found = field(of, name, where);
    if (!found.is_array()) refuse(fmt::format("{} of {} is no list", name, where));
    return found;
  }

  std::string text(const json& value, const std::string& what) const {
    if (!value.is_string()) refuse(what + " is no text");
    return value.get<std::string>();
  }

  int64_t integer(const json& value, const std::string& what) const {
    const bool is_good = value.is_number_integer() &&
                         (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
    if (!is_good) refuse(what + " is no whole number");
    return value.get<int64_t>();
  }

  std::vector<int64_t> shape(const json& note, const char* name, int64_t least,
                             int64_t most) const {
    std::vector<int64_t> found;
    for (const json& extent : list(note, name, "the note")) {
      found.push_back(integer(extent, name));
      if (found.back() < 1) refuse(fmt::format("{} has a side below 1", name));
    }
    if (std::ssize(found) < least || std::ssize(found) > most || count_of(found) > kLargestNumber ||
        count_of(found) < 0) {
      refuse(fmt::format("{} has no such shape", name));
    }
    return found;
  }

  void read_representation(const json& note) {
    file_.representation = shape(note, "representation", 1, 2);
    std::vector<int64_t> places = file_.representation, own = file_.output;
    places.pop_back();
    own.pop_back();
    if (places != own) refuse("representation has no such shape");
  }

  // The output and the representation, which are values before `end`.
  void read_results(const json& outputs, const std::string& name, int64_t end,
                    OperatorGraph& into) const {
    into.output = value(field(outputs, "output", name), end, "the output");
    if (file_.representation.empty()) return;
    into.representation = value(field(outputs, "representation", name), end, "the representation");
  }

  // The tensor of that name, which has one of these types.
  const StoredTensor& tensor(const std::string& name, const std::set<std::string>& types) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse(printable(name) + " is not among its tensors");
    if (std::ssize(found->second->shape) > kMostAxes) {
      refuse(printable(name) + " has too many axes");
    }
    if (!types.contains(found->second->type)) {
      refuse(fmt::format("{} has numbers of type {}", printable(name), found->second->type));
    }
    return *found->second;
  }

  // A name of the state dict, which no other tensor has.
  std::string new_name(const json& value) {
    const std::string name = text(value, "a name");
    if (name.empty() || std::ssize(name) > kLongestName || printable(name) != name ||
        name.find('/') != std::string::npos || name == ".") {
      refuse(fmt::format("'{}' is no name of a tensor", printable(name.substr(0, 40))));
    }
    if (name == "row") refuse("a tensor is called row, which is the whole row's name in model.h5");
    if (!names_.insert(name).second) refuse(name + " is the name of two tensors");
    return name;
  }

  void read_parameters(const json& parameters) {
    bool some_train = false;
    for (const json& entry : parameters) {
      GraphParameter parameter{
          .name = new_name(field(entry, "name", "a parameter")),
          .tensor = &tensor(text(field(entry, "tensor", "a parameter"), "tensor"), {"F32"})};
      const json& trains = field(entry, "trains", parameter.name);
      if (!trains.is_boolean()) refuse(fmt::format("trains of {} is no boolean", parameter.name));
      parameter.trains = trains.get<bool>();
      some_train = some_train || parameter.trains;
      if (entry.contains("also")) {
        for (const json& also : list(entry, "also", parameter.name)) {
          parameter.also.push_back(new_name(also));
        }
      }
      read_uses(entry, parameter);
      file_.parameters.push_back(std::move(parameter));
    }
    if (!some_train) refuse("none of its parameters trains");
  }

  void read_uses(const json& entry, GraphParameter& parameter) const {
    const auto uses = entry.find("uses");
    if (uses == entry.end()) return;
    if (!uses->is_object()) refuse(fmt::format("uses of {} are no object", parameter.name));
    for (const auto& [called, use] : uses->items()) {
      const bool is_its =
          called == parameter.name || std::ranges::count(parameter.also, called) > 0;
      const std::string word = use.is_string() ? use.get<std::string>() : "";
      if (!is_its || (word != "transposed" && word != "embedding")) {
        refuse(fmt::format("uses of {} are damaged", parameter.name));
      }
      parameter.uses[called] = word == "embedding" ? MatrixUse::kEmbedding : MatrixUse::kTransposed;
    }
  }

  void read_buffers(const json& buffers) {
    for (const json& entry : buffers) {
      file_.buffers.push_back(
          {.name = new_name(field(entry, "name", "a buffer")),
           .tensor = &tensor(text(field(entry, "tensor", "a buffer"), "tensor"), {"F32", "I64"})});
    }
  }

  void read_evaluation(const json& graph) {
    file_.evaluation.inputs = file_.x() + 1;
    read_nodes(graph, "evaluation", file_.evaluation);
    file_.evaluation.backward = std::ssize(file_.evaluation.nodes);
    for (const GraphNode& node : file_.evaluation.nodes) {
      if (node.is_keep()) refuse("its evaluation draws random numbers");
    }
    const json& outputs = field(graph, "outputs", "evaluation");
    read_results(outputs.is_object() ? outputs : json{{"output", outputs}}, "evaluation",
                 end_of(file_.evaluation), file_.evaluation);
  }

  void read_training(const json& graph) {
    OperatorGraph& training = file_.training;
    training.inputs = file_.delta() + (file_.representation.empty() ? 1 : 2);
    read_nodes(graph, "training", training);
    note_backward(training);
    const json& outputs = field(graph, "outputs", "training");
    const int64_t forward = training.inputs + training.backward, end = end_of(training);
    read_results(outputs, "training", forward, training);
    for (const json& entry : list(outputs, "gradients", "training")) {
      training.gradients.push_back(entry.is_null() ? kNoValue : value(entry, end, "a gradient"));
    }
    for (const json& entry : list(outputs, "buffers", "training")) {
      training.buffers.push_back(entry.is_null() ? kNoValue : value(entry, forward, "a buffer"));
    }
    int64_t trained = 0;
    for (const GraphParameter& parameter : file_.parameters) trained += parameter.trains ? 1 : 0;
    if (std::ssize(training.gradients) != trained)
      refuse("a parameter has no place for a gradient");
    if (training.buffers.size() != file_.buffers.size()) refuse("a buffer has no new value");
    const auto is_early = [&](int64_t v) { return is_delta(v); };
    if (is_early(training.output) || is_early(training.representation) ||
        std::ranges::any_of(training.buffers, is_early)) {
      refuse("its output is the loss's gradient");
    }
  }

  bool is_delta(int64_t v) const {
    return v != kNoValue && (v == file_.delta() || v == file_.representation_delta());
  }

  int64_t end_of(const OperatorGraph& graph) const {
    return graph.inputs + std::ssize(graph.nodes);
  }

  void note_backward(OperatorGraph& training) const {
    training.backward = std::ssize(training.nodes);
    for (int64_t i = std::ssize(training.nodes); i-- > 0;) {
      for_each_value(training.nodes[to_index(i)], [&](int64_t v) {
        if (is_delta(v)) training.backward = i;
      });
    }
  }

  int64_t value(const json& number, int64_t end, const std::string& what) const {
    const int64_t found = integer(number, what);
    if (found < 0 || found >= end) {
      refuse(fmt::format("{} is value {}, which is not made before", what, found));
    }
    return found;
  }

  void read_nodes(const json& graph, const std::string& name, OperatorGraph& into) {
    const json& nodes = list(graph, "nodes", name);
    if (std::ssize(nodes) > kMostNodes) refuse(name + " has too many nodes");
    into.nodes.reserve(nodes.size());
    for (const json& entry : nodes) {
      where_ = fmt::format("node {} of {}", into.nodes.size(), name);
      end_ = end_of(into);
      items_ = 0;
      into.nodes.push_back(node(entry));
    }
  }

  GraphNode node(const json& entry) {
    GraphNode found{.op = text(field(entry, "op", where_), "op of " + where_)};
    if (entry.contains("overload")) found.overload = text(entry["overload"], "overload");
    if (!is_word(found.overload)) {
      refuse(fmt::format("overload of {} is no name of an overload", where_));
    }
    where_ += fmt::format(", {}", printable(found.label().substr(0, to_index(kLongestName))));
    for (const json& argument : list(entry, "args", where_)) {
      found.args.push_back(this->argument(argument, 0));
    }
    if (entry.contains("kwargs")) {
      if (!entry["kwargs"].is_object()) refuse("kwargs of " + where_ + " are no object");
      for (const auto& [name, argument] : entry["kwargs"].items()) {
        found.kwargs.emplace_back(name, this->argument(argument, 0));
      }
    }
    if (found.is_item()) {
      if (!is_whole_item(found)) refuse(where_ + " is damaged");
    } else if (found.is_keep()) {
      if (!is_whole_keep(found)) refuse(where_ + " is damaged");
    } else if (!is_allowed_operator(found.op)) {
      refuse(where_ + " is not in this program's list of operators");
    }
    return found;
  }

  GraphArgument argument(const json& entry, int64_t depth) {
    if (++items_ > kMostItems) refuse(where_ + " has too many arguments");
    if (entry.is_null()) return {};
    if (entry.is_boolean()) return {.kind = Kind::kBool, .number = entry.get<bool>() ? 1 : 0};
    if (entry.is_number_float()) return {.kind = Kind::kFloat, .real = entry.get<double>()};
    if (entry.is_number()) return {.kind = Kind::kInteger, .number = integer(entry, where_)};
    if (entry.is_string()) return {.kind = Kind::kText, .text = word(entry)};
    if (entry.is_object()) return named_argument(entry);
    if (depth == kDeepestList) refuse(where_ + " has lists in lists");
    GraphArgument found{.kind = Kind::kList};
    for (const json& item : entry) found.items.push_back(argument(item, depth + 1));
    return found;
  }

  // LibTorch's messages repeat it.
  std::string word(const json& entry) const {
    const std::string found = entry.get<std::string>();
    if (!is_word(found)) refuse(where_ + " has a text that is no word");
    return found;
  }

  GraphArgument named_argument(const json& entry) const {
    if (entry.size() != 1) refuse(where_ + " has an argument of another kind");
    const std::string& name = entry.begin().key();
    const json& value = entry.begin().value();
    if (name == "v") return {.kind = Kind::kValue, .number = this->value(value, end_, where_)};
    if (name == "rows") return of_rows(value);
    if (name == "f") return {.kind = Kind::kFloat, .real = special(text(value, where_))};
    static const std::map<std::string, std::pair<Kind, std::set<std::string>>> others = {
        {"dtype",
         {Kind::kDtype,
          {"float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"}}},
        {"layout", {Kind::kLayout, {"strided"}}},
        {"device", {Kind::kDevice, {"cpu"}}},
        {"memory_format", {Kind::kMemoryFormat, {"contiguous", "channels_last", "preserve"}}}};
    const auto found = others.find(name);
    if (found == others.end()) refuse(where_ + " has an argument of another kind");
    const std::string word = text(value, where_);
    if (!found->second.second.contains(word)) {
      refuse(fmt::format("{} has {} = '{}'", where_, name, printable(word.substr(0, 40))));
    }
    return {.kind = found->second.first, .text = word};
  }

  GraphArgument of_rows(const json& pair) const {
    if (!pair.is_array() || pair.size() != 2) refuse(where_ + " has damaged rows");
    GraphArgument found{
        .kind = Kind::kRows, .number = integer(pair[1], where_), .a_row = integer(pair[0], where_)};
    for (const int64_t n : {found.number, found.a_row}) {
      if (n > kLargestNumber || n < -kLargestNumber) refuse(where_ + " has damaged rows");
    }
    return found;
  }

  double special(const std::string& name) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (name == "inf") return kInfinity;
    if (name == "-inf") return -kInfinity;
    if (name != "nan") refuse(where_ + " has a damaged number");
    return std::numeric_limits<double>::quiet_NaN();
  }

  std::string path_;
  GraphFile file_;
  std::map<std::string, const StoredTensor*> tensors_;
  std::set<std::string> names_;
  std::string where_;  // the node that is read
  int64_t end_ = 0;    // of the values that it may read
  int64_t items_ = 0;  // of its arguments so far
};

}  // namespace

GraphFile read_graph_file(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(missing_text(path), "model.path", kWriter);
  }
  return GraphReader(path).read();
}

}  // namespace hanse

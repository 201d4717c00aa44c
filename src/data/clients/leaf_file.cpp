#include "clients/leaf_file.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "file_signature.hpp"
#include "hanse/base/error.hpp"
#include "input_file.hpp"
#include "rounded_numbers.hpp"

namespace hanse {

namespace {

using nlohmann::json;
using NameSet = std::unordered_set<std::string>;

constexpr const char* kFillHint = "leave the sample out, or fill the value in";
constexpr int kOutOfRange = 406;  // the parser's number of this error

// The parser follows the path of keys: SECTION, in user_data USER, then x or y; inside, the depth
// of arrays.
class LeafParser final : public nlohmann::json_sax<json> {
 public:
  LeafParser(const std::string& path, const LeafVisitor& visitor)
      : path_(path), visitor_(visitor), text_(path) {
    if (text_.view().empty()) throw InvalidArgument("the file is empty", path, "make it again");
    require_text(text_.view(), path, "JSON");
    json::sax_parse(text_.view(), this);
    if (with_data_.empty() && with_labels_.empty()) {
      throw InvalidArgument("there is no \"user_data\" with a user", path,
                            "expected LEAF's JSON; data/clients.md has the format");
    }
    check_lists();
  }

  LeafUsers take_users() { return std::move(users_); }

  bool start_object(std::size_t) override {
    ++objects_;
    if (field_ != Field::kNone) refuse("an object stands where a number or text is expected");
    return true;
  }
  bool key(std::string& name) override {
    if (objects_ == 1) {
      section_ = name;
    } else if (objects_ == 2 && (section_ == "user_data" || section_ == "user_data_label")) {
      start_user(name);
    } else if (objects_ == 3 && section_ == "user_data") {
      entry_ = name;
    }
    return true;
  }
  bool end_object() override {
    --objects_;
    entry_.clear();
    return true;
  }
  bool start_array(std::size_t) override {
    if (arrays_++ == 0) {
      field_ = field_here();
      item_.place = 0;
    }
    return true;
  }
  bool end_array() override {
    if (--arrays_ == 0) field_ = Field::kNone;
    if (arrays_ == 1) end_item();
    return true;
  }
  bool null() override { return scalar("null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool binary(json::binary_t&) override { return scalar("binary data"); }
  bool number_integer(json::number_integer_t value) override { return whole_number(value); }
  bool number_unsigned(json::number_unsigned_t value) override { return whole_number(value); }
  bool number_float(json::number_float_t value, const std::string& text) override {
    if (field_ == Field::kUsers) refuse(fmt::format("{} is no name of a user", text));
    return number(value);
  }
  bool string(std::string& value) override {
    if (holds_values()) {
      item_.text += value;
      ++item_.texts;
    }
    if (field_ == Field::kUsers) users_.listed.push_back(value);
    if (field_ == Field::kCounts) scalar("a text");
    if (arrays_ == 1) end_item();
    return true;
  }
  bool parse_error(std::size_t at, const std::string& token, const json::exception& error) override;

 private:
  enum class Field { kNone, kFeatures, kLabels, kUsers, kCounts };

  Field field_here() const {
    if (objects_ == 1 && section_ == "users") return Field::kUsers;
    if (objects_ == 1 && section_ == "num_samples") return Field::kCounts;
    if (objects_ == 2 && section_ == "user_data_label") return Field::kLabels;
    if (objects_ == 2 && section_ == "user_data") return Field::kFeatures;
    if (objects_ == 3 && entry_ == "x") return Field::kFeatures;
    if (objects_ == 3 && entry_ == "y") return Field::kLabels;
    return Field::kNone;
  }
  bool holds_values() const { return field_ == Field::kFeatures || field_ == Field::kLabels; }

  // A user's two entries would add up, while Python's reader takes the last.
  void start_user(const std::string& name) {
    user_ = name;
    const bool has_labels_alone = section_ == "user_data_label";
    if (!(has_labels_alone ? with_labels_ : with_data_).insert(name).second) {
      refuse(fmt::format("the user stands in \"{}\" twice", section_),
             "bring the samples of a user together");
    }
    if (!has_labels_alone) users_.with_data.push_back(name);
  }

  template <class T>
  bool whole_number(T value) {
    if (field_ == Field::kUsers) users_.listed.push_back(std::to_string(value));
    return number(counted_double(value));
  }
  bool number(double value) {
    if (holds_values()) item_.numbers.push_back(value);
    if (field_ == Field::kCounts) {
      if (!(value >= 0 && value < 1e15) || value != std::floor(value)) {
        refuse(fmt::format("{} is no number of samples", value));
      }
      users_.num_samples.push_back(static_cast<int64_t>(value));
    }
    if (arrays_ == 1) end_item();
    return true;
  }
  bool scalar(const std::string& what) {
    if (field_ == Field::kNone) return true;
    const std::string place = holds_values() ? ", in " + place_text() : "";
    refuse(fmt::format("{} stands where a number or text is expected{}", what, place), kFillHint);
  }
  // A sample or label is an element of the outermost array.
  void end_item() {
    if (!holds_values()) return;
    item_.is_label = field_ == Field::kLabels;
    visitor_(user_, item_);
    item_.numbers.clear();
    item_.text.clear();
    item_.texts = 0;
    ++item_.place;
  }

  // Where the present value is.
  std::string place_text() const {
    if (field_ == Field::kLabels) return fmt::format("label {}", item_.place);
    if (arrays_ == 1) return fmt::format("sample {}", item_.place);
    return fmt::format("value {} of sample {}", item_.numbers.size(), item_.place);
  }
  std::string word_at(std::size_t at) const;
  void check_lists() const;
  void require_in(const NameSet& all, const std::vector<std::string>& names, const char* has,
                  const char* lacks, const char* hint) const;
  [[noreturn]] void refuse(const std::string& what, const char* hint = kLeafHint) const {
    const bool is_users = !user_.empty() && field_ != Field::kUsers && field_ != Field::kCounts;
    throw InvalidArgument(what, is_users ? fmt::format("{}, user '{}'", path_, user_) : path_,
                          hint);
  }

  const std::string& path_;
  const LeafVisitor& visitor_;
  InputText text_;
  LeafUsers users_;
  NameSet with_data_, with_labels_;  // users in user_data, and in FLUTE's user_data_label
  LeafItem item_;                    // the one in progress
  int64_t objects_ = 0;              // number of open objects
  int64_t arrays_ = 0;
  std::string section_, user_, entry_;
  Field field_ = Field::kNone;  // the open array's
};

// The word in or behind which the parser stopped: "NaN" or "-Infinity", which Python's json.dump
// writes, or a number.
std::string LeafParser::word_at(std::size_t at) const {
  const std::string_view text = text_.view();
  const auto in_word = [&](std::size_t place) {
    const char c = text[place];
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
  };
  std::size_t begin = std::min(at, text.size()), end = begin;
  while (begin > 0 && in_word(begin - 1)) --begin;
  while (end < text.size() && in_word(end)) ++end;
  return std::string(text.substr(begin, end - begin));
}

bool LeafParser::parse_error(std::size_t at, const std::string&, const json::exception& error) {
  const std::string word = word_at(at);
  std::string known = word.substr(word.starts_with('-') ? 1 : 0);
  std::ranges::transform(known, known.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_number = known == "nan" || known == "inf" || known == "infinity";
  if (holds_values() && (is_number || error.id == kOutOfRange)) {
    refuse(fmt::format("{} is {}, not finite", place_text(), word), kFillHint);
  }
  std::string reason = error.what();
  const auto colon = reason.find("syntax error");
  if (colon != std::string::npos) reason = reason.substr(colon);
  throw InvalidArgument("not JSON, or cut off: " + reason, fmt::format("{}, byte {}", path_, at),
                        "the file is incomplete or corrupt; make it again");
}

void LeafParser::require_in(const NameSet& all, const std::vector<std::string>& names,
                            const char* has, const char* lacks, const char* hint) const {
  for (const std::string& name : names) {
    if (all.contains(name)) continue;
    throw InvalidArgument(fmt::format("the user stands in \"{}\" and not in \"{}\"", has, lacks),
                          fmt::format("{}, user '{}'", path_, name), hint);
  }
}

void LeafParser::check_lists() const {
  const auto& listed = users_.listed;
  if (!users_.num_samples.empty() && listed.size() != users_.num_samples.size()) {
    throw InvalidArgument(
        fmt::format("{} users but {} num_samples", listed.size(), users_.num_samples.size()), path_,
        kLeafHint);
  }
  if (listed.empty()) return;
  NameSet names;
  for (const std::string& name : listed) {
    if (names.insert(name).second) continue;
    throw InvalidArgument("the user stands in \"users\" twice",
                          fmt::format("{}, user '{}'", path_, name), "list each user once");
  }
  require_in(with_data_, listed, "users", "user_data", "the file is incomplete; make it again");
  require_in(names, users_.with_data, "user_data", "users",
             "list all users, or leave \"users\" and \"num_samples\" out");
}

}  // namespace

LeafUsers read_leaf_file(const std::string& path, const LeafVisitor& visitor) {
  return LeafParser(path, visitor).take_users();
}

}  // namespace hanse

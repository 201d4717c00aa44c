#include "client_lines.hpp"

#include <fmt/format.h>

#include "hanse/base/text.hpp"

namespace hanse {

namespace {

const char* split_of(const Federation& federation, int64_t client, EvaluateOn on) {
  if (!evaluated_apart(federation, client, on)) return "train";
  const bool trained = client < federation.clients();
  return (trained ? on == EvaluateOn::kValidation : is_for_validation(federation, client))
             ? "validation"
             : "test";
}

// A client's last fields in clients.csv.
std::string validation_fields(const ClientEvaluation& client, bool classes) {
  if (!client.validation) return ",,,";
  return fmt::format(",{},{:.9g},{}", static_cast<int64_t>(client.validation->samples),
                     client.validation->loss,
                     classes ? fmt::format("{:.9g}", client.validation->accuracy) : "");
}

}  // namespace

std::string ClientLines::header() const {
  std::string text = "client,name,split,held_out,samples,loss,accuracy";
  if (has_auroc()) text += ",auroc";
  for (const auto& [name, value] : named_scores(asked_, {})) text += "," + name;
  if (has_validation()) text += ",validation_samples,validation_loss,validation_accuracy";
  for (const auto& [name, value] : added_.of_client(0)) text += "," + name;
  return text + "\n";
}

std::string ClientLines::line(const ClientEvaluation& found) const {
  const int64_t c = found.client;
  const bool known = c < federation_.clients() + federation_.held_out();
  std::string text = fmt::format(
      "{},{},{},{},{},{:.9g},{}", c, known ? csv_field(federation_.names().clients.at(c)) : "",
      known ? split_of(federation_, c, asked_.on) : "", known && c >= federation_.clients() ? 1 : 0,
      static_cast<int64_t>(found.samples), found.loss,
      federation_.classes() > 0 ? fmt::format("{:.9g}", found.accuracy) : "");
  if (has_auroc()) text += "," + number_or_nothing(found.auroc);
  for (const auto& [name, value] : named_scores(asked_, found.asked)) {
    text += "," + number_or_nothing(value);
  }
  if (has_validation()) text += validation_fields(found, federation_.classes() > 0);
  for (const auto& [name, x] : added_.of_client(c)) text += "," + number_or_nothing(x);
  return text + "\n";
}

}  // namespace hanse

#include "hanse/base/divergence.hpp"

namespace hanse {

Divergence::Divergence(const std::string& what, int64_t client, int64_t round,
                       const std::string& hint)
    : TrainingError(what, client, round, hint), what_(what), hint_(hint), round_(round) {}

Divergence Divergence::hinting(const std::string& more) const {
  return {what_, client(), round_, more + "; " + hint_};
}

bool is_divergence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Divergence&) {
    return true;
  } catch (const NotFinite&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string without_hint(const std::exception& error) {
  const std::string text = first_line(error);
  return text.substr(0, text.find("; hint: "));
}

}  // namespace hanse

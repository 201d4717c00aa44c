// What a test expects of an error's message.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

namespace hanse {

// what() of the E that `work` throws. Anything else is a failure of the test.
template <class E>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// Every part stands in `text`, which is one line.
inline void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
  }
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

template <class E>
void expect_error(const std::function<void()>& work, std::initializer_list<std::string> parts) {
  expect_parts(message_of<E>(work), parts);
}

}  // namespace hanse

// Errors that a caller can act on. Every message is one line for the person who reads it:
// what is wrong, where (file, line, field, client, rank), and a hint.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace hanse {

// Exit statuses of the program; scripts depend on them.
enum class ExitStatus : int {
  kDone = 0,
  kFailed = 1,    // failed while running
  kBadInput = 2,  // bad usage, option or input, found before the first round
  kStopped = 75,  // stopped on request, after writing a checkpoint
};

// Base of all typed failures. what() is "WHAT (WHERE); hint: HINT", without empty parts.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, const std::string& where = "",
                 const std::string& hint = "");

  // Status of the process when nobody handles the error.
  virtual ExitStatus exit_status() const { return ExitStatus::kFailed; }
};

// An option, argument or input that cannot be used. Found before the first round.
class InvalidArgument : public Error {
 public:
  using Error::Error;
  ExitStatus exit_status() const override { return ExitStatus::kBadInput; }
};

// A file that cannot be read or written while running.
class IoError : public Error {
 public:
  using Error::Error;
};

// A collective operation failed, or a peer is gone.
class CommError : public Error {
 public:
  CommError(const std::string& what, int rank, int code);
};

// A client produced something that cannot be aggregated (NaN, Inf, out of range).
class TrainingError : public Error {
 public:
  TrainingError(const std::string& what, int64_t client, int64_t round,
                const std::string& hint = "");
  int64_t client() const { return client_; }
  // This error with `label` in the place of "client 2".
  TrainingError called(const std::string& label) const;

 private:
  TrainingError(const TrainingError& other, const std::string& label);

  std::string what_, hint_;
  int64_t client_, round_;
};

// An optional part that this build does not contain.
class NotCompiled : public Error {
 public:
  explicit NotCompiled(const std::string& part, const std::string& hint);
  ExitStatus exit_status() const override { return ExitStatus::kBadInput; }
};

// An error that every rank of a run has agreed on; only rank 0 reports it.
class AgreedError : public std::runtime_error {
 public:
  AgreedError(const std::string& what, ExitStatus status)
      : std::runtime_error(what), status_(status) {}
  ExitStatus exit_status() const { return status_; }

 private:
  ExitStatus status_;
};

// The first line of error.what(); LibTorch appends a stack trace.
std::string first_line(const std::exception& error);

// "no such file: b.csv, looked for in /home/a"; a relative path alone names the folder.
std::string missing_text(const std::string& path, const std::string& what = "file");

// The system's text for errno, for messages.
std::string errno_text();

// Up to six digits, for messages: "0.25", "inf"; "nan" whatever its sign, which means nothing.
std::string number_text(double value);

}  // namespace hanse

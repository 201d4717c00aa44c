// A disk that fails. Preloaded into the program, it numbers every call that changes something below
// one folder, from 1, and lets one of them fail, or ends the process there.
//
//   FAULTY_DISK_FOLDER  the folder; without it nothing is counted
//   FAULTY_DISK_AT      the number of the call; without it none fails
//   FAULTY_DISK_HOW     kill    the process is killed before the call
//                       torn    it is killed when half of the bytes are written
//                       short   half of the bytes are written, and the call says so
//                       EIO     the call fails
//                       ENOSPC  this call and all later ones that need room fail
//   FAULTY_DISK_LOCK    every lock of a file there fails with this error number
//   FAULTY_DISK_RANK    the only rank on which calls are counted
//   FAULTY_DISK_LOG     a file to which each counted call appends its name and its path
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char* folder;
static const char* how = "";
static int log_file = -1;
static long at;
static long count;
static int lock_error;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void read_settings(void) {
  const char* rank = getenv("FAULTY_DISK_RANK");
  const char* own_rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!own_rank) own_rank = getenv("PMI_RANK");
  if (rank && (!own_rank || strcmp(rank, own_rank) != 0)) return;
  if (getenv("FAULTY_DISK_HOW")) how = getenv("FAULTY_DISK_HOW");
  if (getenv("FAULTY_DISK_AT")) at = atol(getenv("FAULTY_DISK_AT"));
  if (getenv("FAULTY_DISK_LOCK")) lock_error = atoi(getenv("FAULTY_DISK_LOCK"));
  const char* log = getenv("FAULTY_DISK_LOG");
  if (log) log_file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  folder = getenv("FAULTY_DISK_FOLDER");
}

// What a call needs, and what it can do by halves.
enum Need { kNothing, kRoom, kBytes };
enum Verdict { kPass, kFail, kHalf };

static int is(const char* word) { return strcmp(how, word) == 0; }

static int is_below_folder(const char* path) {
  if (!folder) return 0;
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (!path[length] || path[length] == '/');
}

static enum Verdict judge(const char* call, const char* path, enum Need need) {
  if (!is_below_folder(path)) return kPass;
  const long number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
  if (log_file >= 0) {
    char line[PATH_MAX + 64];
    const int bytes = snprintf(line, sizeof line, "%s %s\n", call, path);
    syscall(SYS_write, log_file, line, bytes);
  }
  if (at == 0 || number < at) return kPass;
  if (is("ENOSPC") && need != kNothing) {
    errno = ENOSPC;
    return kFail;
  }
  if (number > at) return kPass;
  if (is("EIO")) {
    errno = EIO;
    return kFail;
  }
  if (is("kill")) kill(getpid(), SIGKILL);
  if ((is("short") || is("torn")) && need == kBytes) return kHalf;
  return kPass;
}

// Finds the path of an open file; empty: it has none. `path` has room for PATH_MAX + 1 bytes.
static void path_of(int file, char* path) {
  char link[64];
  const int code = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX);
  errno = code;
  path[length > 0 ? length : 0] = '\0';
}

static enum Verdict judge_file(const char* call, int file, enum Need need) {
  char path[PATH_MAX + 1];
  if (!folder) return kPass;
  path_of(file, path);
  return judge(call, path, need);
}

static ssize_t after_half(ssize_t wrote) {
  if (is("torn")) kill(getpid(), SIGKILL);
  return wrote;
}

static enum Verdict judge_open(const char* path, int flags) {
  if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC))) return kPass;
  return judge("open", path, flags & O_CREAT ? kRoom : kNothing);
}

#define MODE_OF(flags)                     \
  mode_t mode = 0;                         \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list list;                          \
    va_start(list, flags);                 \
    mode = va_arg(list, mode_t);           \
    va_end(list);                          \
  }

int open(const char* path, int flags, ...) {
  MODE_OF(flags);
  return judge_open(path, flags) == kFail ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  MODE_OF(flags);
  return judge_open(path, flags) == kFail ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int at_folder, const char* path, int flags, ...) {
  MODE_OF(flags);
  return judge_open(path, flags) == kFail ? -1 : REAL(openat)(at_folder, path, flags, mode);
}

int openat64(int at_folder, const char* path, int flags, ...) {
  MODE_OF(flags);
  return judge_open(path, flags) == kFail ? -1 : REAL(openat64)(at_folder, path, flags, mode);
}

// What open() becomes in programs that are compiled with checks.
int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open64(path, flags); }

#define WRITE(type, name, parameters, whole, half)    \
  type name parameters {                              \
    switch (judge_file(#name, file, kBytes)) {        \
      case kFail: return -1;                          \
      case kHalf: return after_half(REAL(name) half); \
      default: return REAL(name) whole;               \
    }                                                 \
  }

WRITE(ssize_t, write, (int file, const void* data, size_t bytes), (file, data, bytes),
      (file, data, (bytes + 1) / 2))
WRITE(ssize_t, pwrite, (int file, const void* data, size_t bytes, off_t offset),
      (file, data, bytes, offset), (file, data, (bytes + 1) / 2, offset))
WRITE(ssize_t, pwrite64, (int file, const void* data, size_t bytes, off64_t offset),
      (file, data, bytes, offset), (file, data, (bytes + 1) / 2, offset))
WRITE(ssize_t, writev, (int file, const struct iovec* parts, int n), (file, parts, n),
      (file, parts, (n + 1) / 2))
WRITE(ssize_t, pwritev, (int file, const struct iovec* parts, int n, off_t offset),
      (file, parts, n, offset), (file, parts, (n + 1) / 2, offset))
WRITE(ssize_t, pwritev64, (int file, const struct iovec* parts, int n, off64_t offset),
      (file, parts, n, offset), (file, parts, (n + 1) / 2, offset))

#define OF_FILE(name, need, parameters, arguments) \
  int name parameters { return judge_file(#name, file, need) == kFail ? -1 : REAL(name) arguments; }
#define OF_PATH(name, need, parameters, arguments) \
  int name parameters { return judge(#name, path, need) == kFail ? -1 : REAL(name) arguments; }

OF_FILE(fsync, kNothing, (int file), (file))
OF_FILE(fdatasync, kNothing, (int file), (file))
OF_FILE(ftruncate, kNothing, (int file, off_t bytes), (file, bytes))
OF_FILE(ftruncate64, kNothing, (int file, off64_t bytes), (file, bytes))
OF_FILE(fallocate, kRoom, (int file, int mode, off_t begin, off_t bytes),
        (file, mode, begin, bytes))
OF_FILE(fallocate64, kRoom, (int file, int mode, off64_t begin, off64_t bytes),
        (file, mode, begin, bytes))
OF_PATH(truncate, kNothing, (const char* path, off_t bytes), (path, bytes))
OF_PATH(truncate64, kNothing, (const char* path, off64_t bytes), (path, bytes))
OF_PATH(mkdir, kRoom, (const char* path, mode_t mode), (path, mode))
OF_PATH(rmdir, kNothing, (const char* path), (path))
OF_PATH(unlink, kNothing, (const char* path), (path))
OF_PATH(remove, kNothing, (const char* path), (path))

int rename(const char* from, const char* to) {
  return judge("rename", to, kNothing) == kFail ? -1 : REAL(rename)(from, to);
}

// Relative to an open folder, as std::filesystem removes trees.
int unlinkat(int in, const char* name, int flags) {
  char link[64], path[2 * PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", in);
  const ssize_t length = in == AT_FDCWD ? 0 : readlink(link, path, PATH_MAX);
  if (length > 0) path[length] = '/';
  snprintf(path + (length > 0 ? length + 1 : 0), PATH_MAX, "%s", name);
  return judge("unlinkat", path, kNothing) == kFail ? -1 : REAL(unlinkat)(in, name, flags);
}

// The streams of the C library write by calls that nobody can come between: here they get our own.
static ssize_t stream_read(void* cookie, char* data, size_t bytes) {
  return read((int)(intptr_t)cookie, data, bytes);
}

static ssize_t stream_write(void* cookie, const char* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t wrote = write((int)(intptr_t)cookie, data + done, bytes - done);
    if (wrote <= 0) break;
    done += (size_t)wrote;
  }
  return (ssize_t)done;
}

static int stream_seek(void* cookie, off64_t* offset, int from) {
  *offset = lseek64((int)(intptr_t)cookie, *offset, from);
  return *offset < 0 ? -1 : 0;
}

static int stream_close(void* cookie) { return close((int)(intptr_t)cookie); }

FILE* fopen(const char* path, const char* mode) {
  if (!folder || strncmp(path, folder, strlen(folder)) != 0 ||
      strcspn(mode, "wa+") == strlen(mode)) {
    return REAL(fopen)(path, mode);
  }
  int flags = strchr(mode, '+') ? O_RDWR : O_WRONLY;
  if (mode[0] != 'r') flags |= O_CREAT | (mode[0] == 'a' ? O_APPEND : O_TRUNC);
  const int file = open(path, flags | O_CLOEXEC, 0666);
  if (file < 0) return NULL;
  const cookie_io_functions_t calls = {stream_read, stream_write, stream_seek, stream_close};
  return fopencookie((void*)(intptr_t)file, mode, calls);
}

FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

static int refuses_lock(int file, int command) {
  char path[PATH_MAX + 1];
  if (!lock_error || (command != F_OFD_SETLK && command != F_SETLK)) return 0;
  path_of(file, path);
  if (!is_below_folder(path)) return 0;
  errno = lock_error;
  return 1;
}

#define FCNTL(name)                               \
  int name(int file, int command, ...) {          \
    va_list list;                                 \
    va_start(list, command);                      \
    void* argument = va_arg(list, void*);         \
    va_end(list);                                 \
    if (refuses_lock(file, command)) return -1;   \
    return REAL(name)(file, command, argument);   \
  }

FCNTL(fcntl)
FCNTL(fcntl64)

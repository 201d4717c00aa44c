// The bridge to Python: a plugin (hanse/plugin.h) whose rules are classes of Python files.
// scripts/build-python-bridge compiles it for one version of Python; it finds libpython's functions
// in the process, where the program has loaded it. support.py has the rest.
#define PY_SSIZE_T_CLEAN
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include <Python.h>

#include "bridge_random.hpp"
#include "hanse/plugin.h"
#include "hanse/rules/told.hpp"

namespace {

using hanse::stream;
using Long = long long;  // of format L

const char* const kSupport =
#include "hanse/python_support.inc"
    ;

std::string last_error_text;
PyObject* support = nullptr;  // the module of support.py

// Owns a reference.
class Ref {
 public:
  explicit Ref(PyObject* object) : object_(object) {}
  ~Ref() { Py_XDECREF(object_); }
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// This thread may call Python while it lives.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

struct Rule {
  PyObject* object;  // support.Rule
  std::string path;
};

// A path or a word of a job file, which need not be UTF-8.
PyObject* of_system(const char* text) { return PyUnicode_DecodeFSDefault(text); }

// Keeps the error that Python has set, in one line.
int fail(const std::string& path) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value != nullptr && trace != nullptr) PyException_SetTraceback(value, trace);
  const Ref owned_type(type), owned_value(value), owned_trace(trace);
  last_error_text = path + ": an error of Python's without a text";
  if (value == nullptr) return 1;
  const Ref text(support != nullptr ? PyObject_CallMethod(support, "describe", "ON", value,
                                                          of_system(path.c_str()))
                                    : PyObject_Str(value));
  const Ref letters(text ? PyUnicode_EncodeFSDefault(text.get()) : nullptr);
  if (letters) last_error_text = PyBytes_AsString(letters.get());
  PyErr_Clear();
  return 1;
}

Ref bytes(const void* data, int64_t size) {
  return Ref(PyBytes_FromStringAndSize(static_cast<const char*>(data), size));
}

// [n] numbers of 8 bytes, or None.
template <class T>
PyObject* numbers(const T* data, int64_t n) {
  if (data == nullptr) Py_RETURN_NONE;
  return bytes(data, n * static_cast<int64_t>(sizeof(T))).release();
}

// {name: (type, numbers or None)} of what a rule is told; `square`: entries of its matrices.
template <class Report, class View>
PyObject* told(const View& view, int64_t square) {
  Ref all(PyDict_New());
  hanse::for_each_told<Report>([&]<class T, class... Of>(const hanse::ToldNumber<T, Of...>& row) {
    if (row.view == nullptr) return;
    const char* type = std::is_same_v<T, double> ? "f8" : "i8";
    const Ref one(
        Py_BuildValue("(sN)", type, numbers(view.*row.view, row.matrices ? square : view.k)));
    if (all && one) PyDict_SetItemString(all.get(), row.name, one.get());
  });
  return all.release();
}

// Copies an array that support.py has checked.
bool copy_out(PyObject* array, void* out) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_CONTIG_RO) != 0) return false;
  std::memcpy(out, view.buf, static_cast<std::size_t>(view.len));
  PyBuffer_Release(&view);
  return true;
}

// Starts the Python that HANSE_PYTHON names, so that it finds the packages of a virtual
// environment. Signals stay Hanse's, nothing is written beside the user's files, and a rule's
// output appears at once.
bool start_python() {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  config.write_bytecode = 0;
  config.buffered_stdio = 0;
  const char* program = std::getenv("HANSE_PYTHON");
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, program);
  if (!PyStatus_Exception(status)) {
    status = PyConfig_SetBytesString(&config, &config.executable, program);
  }
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (!PyStatus_Exception(status)) return true;
  last_error_text = std::string("Python cannot be started: ") +
                    (status.err_msg != nullptr ? status.err_msg : "it ends at once");
  return false;
}

bool load_support() {
  PyObject* random = PyImport_AddModule("_hanse");  // borrowed
  if (random == nullptr || PyModule_AddFunctions(random, hanse::random_functions) != 0)
    return false;
  const Ref code(Py_CompileString(kSupport, "hanse-support.py", Py_file_input));
  if (!code) return false;
  support = PyImport_ExecCodeModule("hanse_support", code.get());
  return support != nullptr;
}

// Starts it once; a failure is for good, as Python cannot be started twice.
bool start() {
  static const bool started = [] {
    if (!start_python()) return false;
    const bool loaded = load_support() || fail("Python") == 0;
    PyEval_SaveThread();  // every call takes the lock for itself
    return loaded;
  }();
  return started;
}

Rule& of(void* rule) { return *static_cast<Rule*>(rule); }

void* create(const HanseCreate* c) {
  if (!start()) return nullptr;
  const Gil gil;
  const Ref args(PyDict_New());
  for (int64_t i = 0; args && i < c->arguments; ++i) {
    const Ref value(of_system(c->values[i]));
    if (value) PyDict_SetItemString(args.get(), c->names[i], value.get());
  }
  PyObject* object =
      PyObject_CallMethod(support, "Rule", "NLOLLN", of_system(c->path), Long{c->kind}, args.get(),
                          Long{c->clients}, Long{c->per_round}, numbers(c->samples, c->clients));
  if (object != nullptr) return new Rule{object, c->path};
  fail(c->path);
  return nullptr;
}

void destroy(void* rule) {
  if (rule == nullptr) return;
  const Gil gil;
  Py_DECREF(of(rule).object);
  delete &of(rule);
}

const char* last_error() { return last_error_text.c_str(); }

int needs(void* rule, HanseNeeds* needs) {
  const Gil gil;
  const Ref said(PyObject_CallMethod(of(rule).object, "needs", nullptr));
  if (!said) return fail(of(rule).path);
  const auto number = [&](const char* name) {
    PyObject* const found = PyDict_GetItemString(said.get(), name);  // borrowed
    return found == nullptr ? 0 : static_cast<int32_t>(PyLong_AsLong(found));
  };
  hanse::for_each_told<hanse::RoundReport>([&](const auto& row) {
    if (row.said) needs->*row.said = number(row.name);
  });
  needs->layers = number("layers");
  needs->candidates = number("candidates");
  needs->last = number("last");
  needs->columns = number("columns");
  needs->late = needs->norms || needs->rates;
  return 0;
}

int mix(void* rule, const HanseReport* r, double* coefficients) {
  const Gil gil;
  const Ref result(PyObject_CallMethod(
      of(rule).object, "mix", "LLNNN", Long{r->round}, Long{r->layers}, numbers(r->clients, r->k),
      numbers(r->lambda, r->k), told<hanse::RoundReport>(*r, r->layers * r->k * r->k)));
  return result && copy_out(result.get(), coefficients) ? 0 : fail(of(rule).path);
}

// By the losses of `n` clients, or where they are null of n that are available.
int draw_of(void* rule, int64_t round, const int64_t* named, const double* losses, int64_t n,
            const HanseRandom* random, int64_t* clients, double* weights, int64_t* k) {
  const Gil gil;
  stream = random;
  const Ref result(PyObject_CallMethod(of(rule).object, "draw", "LNNL", Long{round},
                                       numbers(named, n), numbers(losses, n), Long{random->asked}));
  stream = nullptr;
  if (!result) return fail(of(rule).path);
  PyObject* drawn = PyTuple_GetItem(result.get(), 0);
  *k = PyObject_Size(drawn);
  if (!copy_out(drawn, clients) || !copy_out(PyTuple_GetItem(result.get(), 1), weights)) {
    return fail(of(rule).path);
  }
  return 0;
}

int draw(void* rule, int64_t round, const int64_t* available, int64_t n, const HanseRandom* random,
         int64_t* clients, double* weights, int64_t* k) {
  return draw_of(rule, round, available, nullptr, n, random, clients, weights, k);
}

int draw_by_losses(void* rule, int64_t round, const int64_t* candidates, const double* losses,
                   int64_t n, const HanseRandom* random, int64_t* clients, double* weights,
                   int64_t* k) {
  constexpr double kNobody = 0;
  const double* given = losses == nullptr ? &kNobody : losses;
  return draw_of(rule, round, candidates, given, n, random, clients, weights, k);
}

int candidates(void* rule, int64_t round, const int64_t* available, int64_t n,
               const HanseRandom* random, int64_t* clients, int64_t* k) {
  const Gil gil;
  stream = random;
  const Ref result(PyObject_CallMethod(of(rule).object, "candidates", "LNL", Long{round},
                                       numbers(available, n), Long{random->asked}));
  stream = nullptr;
  if (!result) return fail(of(rule).path);
  *k = PyObject_Size(result.get());
  return copy_out(result.get(), clients) ? 0 : fail(of(rule).path);
}

int observe(void* rule, const HanseFeedback* f) {
  const Gil gil;
  const Ref result(PyObject_CallMethod(of(rule).object, "observe", "NN", numbers(f->clients, f->k),
                                       told<hanse::Feedback>(*f, 0)));
  return result ? 0 : fail(of(rule).path);
}

int observe_late(void* rule, const int64_t* clients, const double* durations, int64_t k) {
  const Gil gil;
  const Ref result(PyObject_CallMethod(of(rule).object, "observe_late", "NN", numbers(clients, k),
                                       numbers(durations, k)));
  return result ? 0 : fail(of(rule).path);
}

// Rows that the rule may write to.
PyObject* row(const float* values, int64_t n) {
  return PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(values),
                                       n * static_cast<int64_t>(sizeof(float)));
}

int step(void* rule, double lr, float* theta, const float* update, int64_t n) {
  const Gil gil;
  const Ref result(
      PyObject_CallMethod(of(rule).object, "step", "dNN", lr, row(theta, n), row(update, n)));
  return result && copy_out(result.get(), theta) ? 0 : fail(of(rule).path);
}

int measure(void* rule, const HanseClients* c, void* sink,
            void (*add)(void* sink, const char* name, double value)) {
  const Gil gil;
  const int64_t n = c->clients;
  PyObject* names = PyTuple_New(n);
  for (int64_t i = 0; names != nullptr && i < n; ++i) {
    PyTuple_SET_ITEM(names, i,
                     PyUnicode_DecodeUTF8(c->names[i], std::strlen(c->names[i]), "replace"));
  }
  const Ref result(PyObject_CallMethod(of(rule).object, "measure", "NNNNNNN", names,
                                       numbers(c->samples, n), numbers(c->loss, n),
                                       numbers(c->accuracy, n), numbers(c->auroc, n),
                                       numbers(c->train_samples, n), numbers(c->train_loss, n)));
  if (!result) return fail(of(rule).path);
  for (Py_ssize_t i = 0; i < PyList_Size(result.get()); ++i) {
    const char* name = nullptr;
    double value = 0;
    if (!PyArg_ParseTuple(PyList_GetItem(result.get(), i), "sd", &name, &value)) {
      return fail(of(rule).path);
    }
    add(sink, name, value);
  }
  return 0;
}

int save(void* rule, void* sink, void (*put)(void* sink, const HanseArray* array)) {
  const Gil gil;
  const Ref arrays(PyObject_CallMethod(of(rule).object, "save", nullptr));
  if (!arrays) return fail(of(rule).path);
  for (Py_ssize_t i = 0; i < PyList_Size(arrays.get()); ++i) {
    const char *name = nullptr, *type = nullptr, *data = nullptr;
    PyObject* shape = nullptr;
    Py_ssize_t length = 0;
    if (!PyArg_ParseTuple(PyList_GetItem(arrays.get(), i), "ssOy#", &name, &type, &shape, &data,
                          &length)) {
      return fail(of(rule).path);
    }
    int64_t sizes[64];  // numpy has at most so many dimensions
    const Py_ssize_t dimensions = PyTuple_Size(shape);
    for (Py_ssize_t d = 0; d < dimensions; ++d) {
      sizes[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    }
    const HanseArray array{.size = sizeof(HanseArray),
                           .name = name,
                           .type = type,
                           .dimensions = dimensions,
                           .shape = sizes,
                           .data = data,
                           .bytes = length};
    put(sink, &array);
  }
  return 0;
}

int load(void* rule, const HanseArray* arrays, int64_t n) {
  const Gil gil;
  const Ref list(PyList_New(0));
  for (int64_t i = 0; list && i < n; ++i) {
    const HanseArray& array = arrays[i];
    PyObject* shape = PyTuple_New(array.dimensions);
    for (int64_t d = 0; shape != nullptr && d < array.dimensions; ++d) {
      PyTuple_SET_ITEM(shape, d, PyLong_FromLongLong(array.shape[d]));
    }
    const Ref item(Py_BuildValue("(ssNN)", array.name, array.type, shape,
                                 bytes(array.data, array.bytes).release()));
    if (!item || PyList_Append(list.get(), item.get()) != 0) return fail(of(rule).path);
  }
  const Ref result(PyObject_CallMethod(of(rule).object, "load", "O", list.get()));
  return result ? 0 : fail(of(rule).path);
}

int attack(void* rule, const HanseHonest* h, double* coefficients) {
  const Gil gil;
  const Ref result(PyObject_CallMethod(of(rule).object, "attack", "LLLLN", Long{h->round},
                                       Long{h->honest}, Long{h->byzantine}, Long{h->rows},
                                       numbers(h->gram, h->rows * h->rows)));
  return result && copy_out(result.get(), coefficients) ? 0 : fail(of(rule).path);
}

int columns(void* rule, const HanseColumns* b, double* step) {
  const Gil gil;
  auto* const rows = reinterpret_cast<char*>(const_cast<double*>(b->rows));  // which are copied
  const int64_t bytes = b->k * b->width * static_cast<int64_t>(sizeof(double));
  const Ref result(PyObject_CallMethod(
      of(rule).object, "columns", "LLNN", Long{b->k}, Long{b->width},
      PyMemoryView_FromMemory(rows, bytes, PyBUF_READ), numbers(b->weights, b->k)));
  return result && copy_out(result.get(), step) ? 0 : fail(of(rule).path);
}

const HansePlugin plugin = {.size = sizeof(HansePlugin),
                            .version = HANSE_PLUGIN_VERSION,
                            .create = create,
                            .destroy = destroy,
                            .last_error = last_error,
                            .needs = needs,
                            .mix = mix,
                            .scale = nullptr,
                            .draw = draw,
                            .observe = observe,
                            .step = step,
                            .measure = measure,
                            .save = save,
                            .load = load,
                            .candidates = candidates,
                            .draw_by_losses = draw_by_losses,
                            .observe_late = observe_late,
                            .attack = attack,
                            .columns = columns};

}  // namespace

extern "C" __attribute__((visibility("default"))) const HansePlugin* hanse_plugin() {
  return &plugin;
}

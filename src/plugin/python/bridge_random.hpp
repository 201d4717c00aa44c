// Hanse's random stream, for support.Rng: each function returns a bytearray of n numbers.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <cstdint>

#include <Python.h>

#include "hanse/plugin.h"

namespace hanse {

inline const HanseRandom* stream = nullptr;  // during a draw

template <class T, class Next>
PyObject* fill(int64_t n, Next next) {
  if (stream == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "rng belongs to one draw, which is over");
    return nullptr;
  }
  if (n < 0) {
    PyErr_Format(PyExc_ValueError, "%lld random numbers", static_cast<long long>(n));
    return nullptr;
  }
  PyObject* array = PyByteArray_FromStringAndSize(nullptr, n * static_cast<int64_t>(sizeof(T)));
  if (array == nullptr) return nullptr;
  T* values = reinterpret_cast<T*>(PyByteArray_AS_STRING(array));
  for (int64_t i = 0; i < n; ++i) values[i] = next(values, i);
  return array;
}

inline PyObject* uniform(PyObject*, PyObject* args) {
  long long n = 0;
  if (!PyArg_ParseTuple(args, "L", &n)) return nullptr;
  return fill<double>(n, [](double*, int64_t) { return stream->uniform(stream->stream); });
}

inline PyObject* normal(PyObject*, PyObject* args) {
  long long n = 0;
  if (!PyArg_ParseTuple(args, "L", &n)) return nullptr;
  return fill<double>(n, [](double*, int64_t) { return stream->normal(stream->stream); });
}

inline PyObject* integers(PyObject*, PyObject* args) {
  long long low = 0, high = 0, n = 0;
  if (!PyArg_ParseTuple(args, "LLL", &low, &high, &n)) return nullptr;
  const auto width = static_cast<int64_t>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  if (high <= low || width <= 0) {
    PyErr_Format(PyExc_ValueError, "no integer lies in [%lld, %lld)", low, high);
    return nullptr;
  }
  return fill<int64_t>(
      n, [=](int64_t*, int64_t) { return low + stream->below(stream->stream, width); });
}

// Fisher-Yates inside out: value i goes to a place among the first i + 1.
inline PyObject* permutation(PyObject*, PyObject* args) {
  long long n = 0;
  if (!PyArg_ParseTuple(args, "L", &n)) return nullptr;
  return fill<int64_t>(n, [](int64_t* values, int64_t i) {
    const int64_t place = stream->below(stream->stream, i + 1);
    if (place == i) return i;
    const int64_t moved = values[place];
    values[place] = i;
    return moved;
  });
}

inline PyMethodDef random_functions[] = {{"uniform", uniform, METH_VARARGS, nullptr},
                                         {"normal", normal, METH_VARARGS, nullptr},
                                         {"integers", integers, METH_VARARGS, nullptr},
                                         {"permutation", permutation, METH_VARARGS, nullptr},
                                         {nullptr, nullptr, 0, nullptr}};

}  // namespace hanse

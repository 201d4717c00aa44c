#include "model/device/fake_graph/fake_graph.hpp"

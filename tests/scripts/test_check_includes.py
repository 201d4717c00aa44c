"""scripts/check-includes finds each kind of violation where it was planted, and only there."""
import unittest

from support import ScriptTest


class CheckIncludesTest(ScriptTest):
    def setUp(self):
        super().setUp()
        self.write("include/hanse/base/error.hpp",
                   '#include <string>\n#include "hanse/config.hpp"\n')
        self.write("include/hanse/data/dataset.hpp", '#include "hanse/base/error.hpp"\n')
        self.write("src/data/idx.cpp", '#include "hanse/data/dataset.hpp"\n#include <vector>\n'
                   '#include <sys/mman.h>\n#include <zlib.h>\n#include "detail/bytes.hpp"\n')
        self.write("src/data/detail/bytes.hpp", '#include <fmt/format.h>\n')
        self.write("src/data/CMakeLists.txt", "hanse_module(data\n  SOURCES idx.cpp)\n")

    def check(self):
        result = self.script("check-includes", "--root", str(self.folder))
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.returncode, 1 if result.stdout else 0)
        return result.stdout.splitlines()

    def assert_found(self, place, *words):
        """One violation in the tree, at this place."""
        lines = self.check()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(place + ": "), lines)
        for word in words:
            self.assertIn(word, lines[0])

    def test_clean_tree(self):
        self.assertEqual(self.check(), [])

    def test_module_above_its_own(self):
        self.write("include/hanse/base/error.hpp", '\n#include "hanse/data/dataset.hpp"\n')
        self.assert_found("include/hanse/base/error.hpp:2", "base may not include data")

    def test_spaces_and_angle_brackets_do_not_hide(self):
        self.write("src/data/detail/bytes.hpp", "  #  include <hanse/run/job.hpp>\n")
        self.assert_found("src/data/detail/bytes.hpp:1", "data may not include run")

    def test_unknown_module(self):
        self.write("src/data/detail/bytes.hpp", '#include "hanse/util/job.hpp"\n')
        self.assert_found("src/data/detail/bytes.hpp:1", "'util' is not a module")

    def test_third_party_in_public_header(self):
        self.write("include/hanse/base/error.hpp", "#include <fmt/format.h>\n")
        self.assert_found("include/hanse/base/error.hpp:1", "<fmt/format.h>", "public")

    def test_system_header_in_public_header(self):
        self.write("include/hanse/base/error.hpp", "#include <unistd.h>\n")
        self.assert_found("include/hanse/base/error.hpp:1", "<unistd.h>", "public")

    def test_library_of_another_module(self):
        self.write("src/data/detail/bytes.hpp", "#include <mpi.h>\n")
        self.assert_found("src/data/detail/bytes.hpp:1", "data may not include mpi")

    def test_cuda_counts_before_the_library_it_extends(self):
        self.write("src/comm/nccl.cpp", "#include <c10/cuda/CUDAStream.h>\n#include <c10/x.h>\n")
        self.write("src/comm/CMakeLists.txt", "hanse_module(comm SOURCES nccl.cpp)\n")
        self.assertEqual(self.check(), [
            "src/comm/nccl.cpp:1: <c10/cuda/CUDAStream.h>: comm may not include cuda",
            "src/comm/nccl.cpp:2: <c10/x.h>: comm may not include c10"])

    def test_libtorch_in_the_folders_of_its_library_alone(self):
        text = "#include <ATen/ATen.h>\n#include <c10/cuda/CUDAStream.h>\n#include <nccl.h>\n"
        self.write("src/model/device/nccl.cpp", text)
        self.write("src/model/CMakeLists.txt", "hanse_module(model SOURCES device/nccl.cpp)\n")
        self.assertEqual(self.check(), [])
        self.write("src/model/zoo.cpp", "#include <ATen/ATen.h>\n")
        self.write("src/model/CMakeLists.txt",
                   "hanse_module(model SOURCES device/nccl.cpp zoo.cpp)\n")
        self.assert_found("src/model/zoo.cpp:1", "model may not include ATen")
        self.write("src/model/zoo.cpp", "")
        self.write("src/sums/sum.cpp", "#include <ATen/ATen.h>\n")
        self.write("src/sums/CMakeLists.txt", "hanse_module(sums SOURCES sum.cpp)\n")
        self.assert_found("src/sums/sum.cpp:1", "sums may not include ATen")

    def test_unknown_library(self):
        self.write("src/data/detail/bytes.hpp", "#include <curl/curl.h>\n")
        self.assert_found("src/data/detail/bytes.hpp:1", "<curl/curl.h>", "unknown")

    def test_private_header_of_another_module(self):
        self.write("src/model/dense.hpp", "#pragma once\n")
        self.write("src/data/detail/bytes.hpp", '\n\n#include "../../model/dense.hpp"\n')
        self.assert_found("src/data/detail/bytes.hpp:3", "not a private header of data")

    def test_cycle_of_units(self):
        self.write("include/hanse/data/split.hpp", "\n")
        self.write("src/data/parts.hpp", '\n#include "hanse/data/split.hpp"\n')
        self.write("src/data/tools/order.hpp", '#include "parts.hpp"\n')
        self.assertEqual(self.check(), [])
        self.write("src/data/split.cpp",
                   '#include "hanse/data/split.hpp"\n#include "tools/order.hpp"\n')
        self.write("src/data/CMakeLists.txt", "hanse_module(data SOURCES idx.cpp split.cpp)\n")
        self.assert_found("src/data/parts.hpp:2", "include cycle: data/parts -> data/split -> "
                          "data/tools/order -> data/parts")

    def test_comment_without_a_subject(self):
        self.write("src/data/detail/bytes.hpp", "// Bytes. Of it, all.\n\n// Of a file.\n")
        self.assert_found("src/data/detail/bytes.hpp:3", "begins with 'Of'")

    def test_cycle_of_folders(self):
        self.write("include/hanse/data/split.hpp", "\n")
        self.write("src/data/cut/split.cpp", '#include "hanse/data/split.hpp"\n')
        self.write("src/data/cut/parts.cpp", '#include "read/lines.hpp"\n')
        self.write("src/data/read/lines.hpp", "\n")
        self.write("src/data/CMakeLists.txt",
                   "hanse_module(data SOURCES idx.cpp cut/split.cpp cut/parts.cpp read/file.cpp)\n")
        self.write("src/data/read/file.cpp", "\n")
        self.assertEqual(self.check(), [])
        self.write("src/data/read/file.cpp", '#include "hanse/data/split.hpp"\n')
        self.assert_found("src/data/cut/parts.cpp:1",
                          "include cycle: data/cut -> data/read -> data/cut")

    def test_private_header_of_the_same_name_is_the_same_unit(self):
        self.write("src/data/dataset.hpp", '#include "hanse/data/dataset.hpp"\n')
        self.write("src/data/dataset.cpp", '#include "dataset.hpp"\n')
        self.write("src/data/CMakeLists.txt", "hanse_module(data SOURCES idx.cpp dataset.cpp)\n")
        self.assertEqual(self.check(), [])

    def test_source_that_is_not_built(self):
        self.write("src/data/csv.cpp", "\n")
        self.write("src/data/CMakeLists.txt", "hanse_module(data\n  SOURCES idx.cpp) # csv.cpp\n")
        self.assert_found("src/data/csv.cpp:1", "src/data/CMakeLists.txt")

    def test_long_line_in_tests(self):
        self.write("tests/data/test_idx.cpp", "// fine\n//" + "é" * 98 + "\n//" + "x" * 99 + "\n")
        self.assert_found("tests/data/test_idx.cpp:3", "101 columns")

    def test_long_files(self):
        self.write("include/hanse/base/error.hpp", "//\n" * 200)
        self.write("src/data/idx.cpp", "//\n" * 400)
        self.assertEqual(self.check(), [])
        self.write("include/hanse/base/error.hpp", "//\n" * 201)
        self.assert_found("include/hanse/base/error.hpp:201", "201 lines")
        self.write("include/hanse/base/error.hpp", "//\n")
        self.write("src/data/idx.cpp", "//\n" * 401)
        self.assert_found("src/data/idx.cpp:401", "401 lines")

    def test_long_tests(self):
        self.write("tests/data/test_idx.cpp", "//\n" * 450)
        self.assertEqual(self.check(), [])
        self.write("tests/data/test_idx.cpp", "//\n" * 451)
        self.assert_found("tests/data/test_idx.cpp:451", "451 lines")

    def test_wrong_root(self):
        result = self.script("check-includes", "--root", str(self.folder / "include"))
        self.assert_one_line_error(result, "no folder src")


if __name__ == "__main__":
    unittest.main()

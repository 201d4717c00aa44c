"""Spack's recipe for Hanse. In a repository of your own recipes (`spack repo create mine`) it is
packages/hanse/package.py:

  spack install hanse                    with Open MPI
  spack install hanse ^mpich             with MPICH, or any other MPI
  spack install hanse +cuda cuda_arch=80
  spack test run hanse

`spack develop` builds it from a checkout.
"""

from spack.package import *

try:  # recipes left Spack's own repository with Spack 1.0
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    from spack.build_systems.cmake import CMakePackage
    from spack.build_systems.cuda import CudaPackage


class Hanse(CMakePackage, CudaPackage):
    """Trainer of federated models on clusters: the same model on any number of ranks."""

    # The sources are not published yet: name their address here, and the tag of the release.
    git = "file:///path/to/a/clone"

    license("Apache-2.0", checked_by="the authors")

    version("main", branch="main")
    version("0.9.0", tag="v0.9.0")

    variant("tests", default=False, description="Build the C++ tests, which CTest runs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.21:", type="build")
    depends_on("ninja", type="build")

    depends_on("mpi@3.1:")
    depends_on("hdf5+mpi")
    depends_on("openblas threads=pthreads")
    depends_on("boost@1.74:+program_options")
    depends_on("eigen")
    depends_on("fmt")
    depends_on("spdlog+fmt_external")
    depends_on("nlohmann-json")
    depends_on("random123")
    depends_on("xxhash")
    depends_on("libsodium")
    depends_on("zlib-api")
    depends_on("libpng@1.6:")
    depends_on("libjpeg-turbo")
    depends_on("py-torch~cuda", when="~cuda")
    depends_on("googletest", when="+tests")

    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"py-torch+cuda+nccl cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
    depends_on("nccl", when="+cuda")

    # Rules in Python, scripts and pictures.
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-numpy", type="run")
    depends_on("py-h5py", type="run")
    depends_on("py-pandas", type="run")
    depends_on("py-matplotlib", type="run")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("HANSE_TESTS", "tests"),
            self.define("HANSE_BENCHMARKS", False),
            self.define_from_variant("HANSE_CUDA", "cuda"),
        ]

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", join_path(self.prefix.lib, "python3", "dist-packages"))

    def test_same_model(self):
        """Two ranks end with the model of one."""
        words = [
            "run",
            "/dev/null",
            "--run.rounds=5",
            "--data.kind=random",
            "--data.shape=1,8,8",
            "--data.classes=5",
            "--federation.clients=10",
            "--federation.samples=20",
        ]
        program = join_path(self.prefix.bin, "hanse")
        alone = Executable(program)
        alone(*words, "--run.out=alone")
        mpirun = Executable(join_path(self.prefix.lib, "hanse", "mpirun"))
        mpirun("-n", "2", program, *words, "--run.out=together")
        digests = set()
        for run in ("alone", "together"):
            with open(join_path(run, "summary.json")) as file:
                digests |= {line for line in file if "model_digest" in line}
        assert len(digests) == 1, "the model depends on the number of ranks"

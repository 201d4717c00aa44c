-- An environment module (Lmod) for an installation of Hanse: `module load hanse`. Untried. Name the
-- site's modules of MPI and of HDF5 built with it below, and the folder of `cmake --install`.
help([[Hanse trains federated models on clusters: man hanse]])
whatis("Name: hanse")
whatis("Description: trainer of federated models")

local folder = "/apps/hanse"
depends_on("openmpi", "hdf5", "openblas")

prepend_path("PATH", pathJoin(folder, "bin"))
prepend_path("MANPATH", pathJoin(folder, "share/man"))
prepend_path("PYTHONPATH", pathJoin(folder, "lib/python3/dist-packages"))
prepend_path("CMAKE_PREFIX_PATH", folder)
prepend_path("PKG_CONFIG_PATH", pathJoin(folder, "lib/pkgconfig"))
setenv("HANSE_ROOT", folder)

"""Tests --device: the program starts without a GPU, and reports an error if one is requested."""
import os
import tempfile
import unittest

import kvik

RUN = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 5, "--seed", 1)


class Devices(unittest.TestCase):
    def test_the_processor_computes_unless_a_gpu_is_asked_for(self):
        self.assertEqual(kvik.output(*RUN), kvik.output(*RUN, "--device", "cpu"))

    def test_a_device_of_another_name_is_wrong_usage(self):
        for name in ("gpu", "cuda:", "cuda:x", "0"):
            with self.subTest(name=name):
                done = kvik.run(*RUN, "--device", name)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(b"expected cpu, cuda or cuda:N", done.stderr)

    def test_a_gpu_that_is_not_there_is_one_sentence(self):
        for name in ("cuda", "cuda:99"):
            with self.subTest(name=name):
                done = kvik.run(*RUN, "--device", name)
                if done.returncode == 0:
                    self.skipTest("there is a GPU")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(done.stdout, b"")
                self.assertRegex(done.stderr, rb"\Akvik: (no GPU can be used: .+|there is no GPU 99: .+|this build has no GPU support: .+)\n\Z")

    def test_what_measures_the_processor_takes_no_gpu(self):
        for args in (("explain", "demo", "--device", "cuda"), ("bench", "demo", "--roofline", "/dev/null", "--device", "cuda")):
            with self.subTest(args=args):
                done = kvik.run(*args)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(b"expected --device cpu", done.stderr)

    def test_a_fake_driver_is_one_sentence(self):
        """The CUDA toolkit contains a stub driver to link against, all of whose functions fail."""
        stub = "/usr/local/cuda/lib64/stubs/libcuda.so"
        if b"has no GPU support" in kvik.run(*RUN, "--device", "cuda").stderr or not os.path.exists(stub):
            self.skipTest("there is no such driver, or no CUDA in this build")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(stub, os.path.join(folder, "libcuda.so.1"))
            done = kvik.run(*RUN, "--device", "cuda", env={"LD_LIBRARY_PATH": folder})
        self.assertEqual((done.returncode, done.stderr), (1, b"kvik: no GPU can be used: CUDA driver is a stub library\n"))


if __name__ == "__main__":
    unittest.main()

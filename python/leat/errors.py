"""The exceptions of Leat. Wrong arguments raise ValueError and TypeError, as usual in Python."""


class Error(RuntimeError):
    """The environment failed: a file, a device, a peer. The text says what failed, where, and what to do."""

    __module__ = "leat"


class SampleError(Error):
    """A sample failed, and no budget (read_failures, transform_failures) is left for it. The text says
    why: for a file, with the file and the byte."""

    __module__ = "leat"

    stage: str
    """Where the sample failed: "read" or "transform"."""
    epoch: int
    batch: int
    """The number of the batch in its epoch."""
    sample: int | None
    """The sample's number in the dataset. None: it is not known, or the batch failed as a whole."""

    def __init__(self, text: str, stage: str, epoch: int, batch: int, sample: int | None) -> None:
        super().__init__(text)
        self.stage, self.epoch, self.batch, self.sample = stage, epoch, batch, sample

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.stage, self.epoch, self.batch, self.sample), self.__dict__


class GpuError(Error):
    """A call of the device's API failed."""

    __module__ = "leat"

    code: int
    """The device's own number for the error, a cudaError_t; 0 if the error is Leat's own."""
    name: str
    """The device's name for the error, such as "cudaErrorMemoryAllocation"."""
    call: str
    """The call that failed, such as "cudaMalloc(1048576 bytes)"."""
    device: str
    """The device, such as "cuda:0"."""

    def __init__(self, text: str, code: int, name: str, call: str, device: str) -> None:
        super().__init__(text)
        self.code, self.name, self.call, self.device = code, name, call, device

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.code, self.name, self.call, self.device), self.__dict__


class OutOfMemory(Error, MemoryError):
    """There is not enough memory, of the host or of a device. What was allocated before stays usable."""

    __module__ = "leat"

    bytes: int
    """How many bytes were asked for; 0 if that is not known."""
    request: str
    """What asked, such as "cudaMalloc(1048576 bytes) on cuda:0"; empty if that is not known."""

    def __init__(self, text: str, bytes: int, request: str) -> None:  # noqa: A002
        super().__init__(text)
        self.bytes, self.request = bytes, request

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.bytes, self.request), self.__dict__


class Timeout(Error, TimeoutError):
    """No batch came within the time allowed. The text says what each reader does. Nothing has changed:
    the next call waits for the same batch."""

    __module__ = "leat"


class TooManyLeases(Error):
    """A batch was asked for while max_leases - 1 are held, and on_escape is "raise"."""

    __module__ = "leat"

"""A limit of memory."""

import multiprocessing
import resource


def within(megabytes, function):
    """What a function raises in a process that may take so much more memory."""

    def child(pipe):
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20,) * 2)
        try:
            function()
        except Exception as error:
            pipe.send((type(error), str(error)))
        pipe.close()

    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(send,))
    process.start()
    send.close()
    result = receive.recv()
    process.join()
    return result

"""In place of trackio 0.43: the part of its interface that is used, with its names."""

import contextvars

import standin

current_run = contextvars.ContextVar("current_run", default=None)


class Run(standin.Run):
    def finish(self):
        standin.write("finish", run=self.key)


def init(project, name=None, group=None, config=None, resume="never", embed=True, auto_log_gpu=None, auto_log_cpu=None):
    if current_run.get() is not None:
        current_run.get().finish()  # as trackio does
    standin.write("init", name=name, project=project, group=group, config=config, resume=resume)
    run = Run(name)
    current_run.set(run)
    return run

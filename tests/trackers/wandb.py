"""In place of wandb 0.31: the part of its interface that is used, with its names."""

import os
import time

import standin


class Run(standin.Run):
    def finish(self, exit_code=None):
        standin.write("finish", run=self.key, exit_code=exit_code)


def init(project=None, dir=None, id=None, name=None, config=None, group=None, reinit=None, resume=None, settings=None):
    time.sleep(float(os.environ.get("TRACKER_SLEEPS", "0")))
    standin.write("init", id=id, name=name, project=project, group=group, config=config, resume=resume, reinit=reinit)
    print("chatter")  # must not be taken for a message
    return Run(id)

package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
)

// OpenHome opens dir. If dir is empty, or holds no more than an interrupted
// attempt to make a home, OpenHome makes a home described by info first, with a
// queue named jobs if jobs is set, unless it comes from a store. The rest of o is for
// [queuefs.Open].
func OpenHome(ctx context.Context, dir string, info queuefs.ServiceInfo, jobs bool, o queuefs.Options, log zerolog.Logger) (*queuefs.Service, error) {
	defer tune()()
	fresh, err := queuefs.Unmade(dir)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := queuefs.Init(dir, info); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	o.Report = damage(log)
	svc, err := queuefs.Open(dir, o)
	if err != nil {
		return nil, err
	}
	if svc.Restored() {
		fresh = false
		log.Info().Str("home", dir).Int("queues", len(svc.Queues())).Msg("home made again from its store")
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn().Str("home", dir).Str("mode", info.Mode().Perm().String()).Msg("other users of this machine can look into the home, chmod 700 takes that away")
	}
	if fresh && jobs && len(svc.Queues()) == 0 {
		_, err := svc.CreateQueue(ctx, queuefs.QueueInfo{ID: "jobs", Name: "jobs",
			CullingSize: -1, CullingAge: -1})
		if err != nil {
			return nil, errors.Join(err, svc.Close())
		}
	}
	if fresh {
		log.Info().Str("home", dir).Msg("home created")
	}
	return svc, nil
}

// At a stop the files of jobs are written for filesTime from the signal on, and for
// filesLeast after the last request. What is left is in the journal, and the next start
// goes on with it. To sync what was written takes some more seconds.
const (
	filesTime  = 10 * time.Second
	filesLeast = 2 * time.Second
)

// closeHome closes the service. After a burst there may be many files to write
// yet; then it says so now and then.
func closeHome(svc *queuefs.Service, log zerolog.Logger) error {
	svc.StopWithin(filesLeast)
	const many, pause = 10_000, 10 * time.Second
	say := func() {
		if n := svc.Behind(); n > many {
			log.Info().Int("jobs", n).Msg("writing the files of jobs; to interrupt that loses nothing, the next start goes on")
		}
	}
	say()
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-done:
				return
			}
		}
	})
	err := svc.Close()
	close(done)
	saying.Wait()
	if n := svc.Behind(); n > 0 && err == nil {
		log.Info().Int("jobs", n).Msg("stopped without the files of some jobs: the journal has them, and the next start writes them")
	}
	return err
}

// damage logs damaged files, set aside.
func damage(log zerolog.Logger) func(queuefs.Problem) {
	return func(p queuefs.Problem) {
		log.Error().Str("path", p.Path).Str("text", p.Text).Msg("problem in the home")
	}
}

// turned logs when callbacks of a queue begin to fail, and when they work again.
func turned(log zerolog.Logger) func(queue string, err error) {
	return func(queue string, err error) {
		if err != nil {
			log.Error().Str("queue", queue).Err(err).Msg("callback failed")
			return
		}
		log.Info().Str("queue", queue).Msg("callback works again")
	}
}

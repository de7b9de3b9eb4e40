package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cutie/cmd/cutie/fault"
)

// A payload is a file to submit as a job.
type payload struct {
	path string // - is standard input
	size int64  // octets; -1 for a pipe
}

// payloads lists the files in args, in their order; - alone is standard
// input. Files may be symbolic links and pipes. With recurse the regular files
// below a directory follow in the order of their paths.
func payloads(ctx context.Context, c *call, args []string, recurse bool) ([]payload, error) {
	if len(args) == 1 && args[0] == "-" {
		return []payload{{path: "-", size: -1}}, nil
	}
	var list []payload
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		switch mode := info.Mode(); {
		case mode.IsRegular():
			list = append(list, payload{arg, info.Size()})
		case mode.Type() == fs.ModeNamedPipe:
			list = append(list, payload{arg, -1})
		case !mode.IsDir():
			return nil, fmt.Errorf("%s is neither a file nor a directory", arg)
		case !recurse:
			return nil, fault.Hint(fault.Usagef("%s is a directory", arg), "-r submits every file below it")
		default:
			below, err := walk(ctx, arg, c.Warnf)
			if err != nil {
				return nil, err
			}
			list = append(list, below...)
		}
	}
	return list, nil
}

func walk(ctx context.Context, dir string, warn func(string, ...any)) ([]payload, error) {
	var list []payload
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			warn("%s skipped: not a regular file", path)
			return nil
		}
		list = append(list, payload{path, info.Size()})
		return nil
	})
	return list, err
}

// open opens the payload. It refuses a file whose size has changed since it was
// listed: somebody is still writing it.
func (p payload) open() (*os.File, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && p.size >= 0 && info.Size() != p.size {
		err = fmt.Errorf("%s changed while it was submitted", p.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// A request to submit carries up to batchFiles jobs and batchOctets octets, or
// one larger job or pipe alone. It is stored whole or not at all.
const (
	batchFiles  = 500
	batchOctets = 8 << 20
)

// nextBatch cuts the first batch off list; there is at least one payload.
func nextBatch(list []payload) (batch, rest []payload) {
	octets := list[0].weight()
	n := 1
	for n < min(len(list), batchFiles) && octets+list[n].weight() <= batchOctets {
		octets += list[n].weight()
		n++
	}
	return list[:n], list[n:]
}

// weight is the size counted in a batch: a pipe fills one.
func (p payload) weight() int64 {
	if p.size < 0 {
		return batchOctets
	}
	return p.size
}

package stored

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/durable"
	"cutie/queuefs/image"
	"cutie/queuefs/objects"
)

// A large payload, or a large result, is an object files/SHA256-CLAIM-RANDOM, with the number of
// the claim of its owner. So it can be found by its digest after its record is
// gone, and no name is used twice.
const prefix = "files/"

// Keep puts a temporary file with a digest into the store, before a record names it. It
// returns the name of the file from now on, after an error too.
func (h *Home) Keep(ctx context.Context, name string, sum [sha256.Size]byte) (string, error) {
	if h == nil {
		return name, nil
	}
	kept := fmt.Sprintf("%s%x-%d-%s", durable.TempPrefix, sum, h.Log.Claim(), rand.Text())
	if err := h.temp.Rename(name, h.temp, kept); err != nil {
		return name, err
	}
	f, err := h.temp.Open(kept)
	if err != nil {
		return kept, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return kept, err
	}
	return kept, h.again(ctx, func() error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return h.store.Put(ctx, objectOf(kept), f, st.Size())
	})
}

// objectOf returns the name of the object of a temporary file.
func objectOf(temp string) string { return prefix + strings.TrimPrefix(temp, durable.TempPrefix) }

// parseObject reads the digest and the claim in the name of an object; ok is false if it is
// none of objectOf.
func parseObject(name string) (sum [sha256.Size]byte, claim uint64, ok bool) {
	parts := strings.Split(strings.TrimPrefix(name, prefix), "-")
	if len(parts) != 3 || len(parts[0]) != hex.EncodedLen(len(sum)) {
		return sum, 0, false
	}
	_, err := hex.Decode(sum[:], []byte(parts[0]))
	if _, e := fmt.Sscanf(parts[1], "%d", &claim); err != nil || e != nil {
		return sum, 0, false
	}
	return sum, claim, true
}

// pause comes before the second attempt at a request; it doubles.
const pause = 50 * time.Millisecond

// again repeats a request for a file until the patience is over.
func (h *Home) again(ctx context.Context, try func() error) error {
	end := time.Now().Add(h.patience)
	for wait := pause; ; wait *= 2 {
		err := try()
		damage := new(image.DamageError)
		if err == nil || errors.Is(err, objects.ErrNotExist) || errors.As(err, &damage) || errors.Is(err, fs.ErrClosed) || time.Now().Add(wait).After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// fetchers is how many files are fetched at once.
const fetchers = 8

// Fetch brings temporary files of these names from the store, unless the directory has
// them.
func (h *Home) Fetch(ctx context.Context, names []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	fetched := false
	for _, name := range names {
		if _, err := h.temp.Stat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fetched = true
		g.Go(func() error {
			tmp, err := h.fetch(ctx, objectOf(name))
			if err != nil {
				return fmt.Errorf("payload or result that the journal names: %w", err)
			}
			return h.temp.Rename(tmp, h.temp, name)
		})
	}
	err := g.Wait()
	if err == nil && fetched && h.Known == nil {
		err = h.temp.SyncFS() // after a crash they are not fetched again
	}
	return err
}

// Find brings a payload or result with a digest from the store, and returns its temporary
// name. The error is an [*image.DamageError] if none in the store verifies.
func (h *Home) Find(sum [sha256.Size]byte) (temp string, err error) {
	ctx := h.Images.ctx
	start := fmt.Sprintf("%s%x-", prefix, sum)
	var names []string
	err = h.again(ctx, func() (err error) {
		names, err = h.store.List(ctx, start, "", 10)
		return err
	})
	if err == nil && len(names) == 0 {
		err = &image.DamageError{Name: start, Text: "is missing"}
	}
	for _, name := range names { // one of them is enough
		if temp, err = h.fetch(ctx, name); err == nil {
			return temp, nil
		}
	}
	return "", err
}

// fetch brings an object into a temporary file, and verifies its digest.
func (h *Home) fetch(ctx context.Context, name string) (tmp string, err error) {
	err = h.again(ctx, func() error {
		tmp, err = h.fetchOnce(ctx, name)
		return err
	})
	if errors.Is(err, objects.ErrNotExist) {
		err = &image.DamageError{Name: name, Text: "is missing"}
	}
	return tmp, err
}

func (h *Home) fetchOnce(ctx context.Context, name string) (tmp string, err error) {
	body, err := h.store.Get(ctx, name, 0)
	if err != nil {
		return "", err
	}
	defer body.Close()
	f, tmp, err := h.temp.Temp()
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			h.temp.Remove(tmp)
		}
	}()
	sum, err := copyTo(f, body)
	if err != nil {
		return "", err
	}
	if want, _, ok := parseObject(name); ok && sum != want {
		return "", &image.DamageError{Name: name, Text: "does not have its digest"}
	}
	return tmp, nil
}

func copyTo(f *os.File, body io.Reader) (sum [sha256.Size]byte, err error) {
	s := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, s), body)
	s.Sum(sum[:0])
	return sum, errors.Join(err, f.Close())
}

// Drop removes an unwanted temporary file.
func (h *Home) Drop(temp string) { h.temp.Remove(temp) }

// sweepEvery is after how many images the objects of large payloads and results are listed:
// a request for each thousand of them.
const sweepEvery = 8

// Sweep deletes the objects of large payloads and results without a job. live yields the
// digests of all there are. Call it after an image: then this process was the owner of all
// it knows, and later owners never name an object without a job again. Their objects have
// the numbers of later claims.
func (h *Home) Sweep(live func(yield func(sum [sha256.Size]byte)) error) error {
	m := h.Images.Last()
	if m.Number%sweepEvery != 0 || h.Absent.Len() > 0 {
		return nil
	}
	ctx := h.Images.ctx
	gone := map[[sha256.Size]byte][]string{}
	err := listFiles(ctx, h.store, h.patience, func(name string, sum [sha256.Size]byte, claim uint64) error {
		if claim > h.Log.Claim() {
			return nil
		}
		// An upload on its way has its file here until the index knows its job.
		if _, err := h.temp.Stat(durable.TempPrefix + strings.TrimPrefix(name, prefix)); errors.Is(err, fs.ErrNotExist) {
			gone[sum] = append(gone[sum], name)
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := live(func(sum [sha256.Size]byte) { delete(gone, sum) }); err != nil {
		return err
	}
	for _, names := range gone {
		for _, name := range names {
			if err := h.again(ctx, func() error { return h.store.Delete(ctx, name) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// listFiles calls visit with the name of each object of a payload or result, with the digest
// and the claim in it.
func listFiles(ctx context.Context, s objects.Store, patience time.Duration, visit func(name string, sum [sha256.Size]byte, claim uint64) error) error {
	for after := prefix; ; {
		var names []string
		err := objects.Again(ctx, patience, func(ctx context.Context) (_ bool, err error) {
			names, err = s.List(ctx, prefix, after, perList)
			return errors.Is(err, objects.ErrNotExist), err
		})
		if err != nil {
			return err
		}
		for _, name := range names {
			sum, claim, ok := parseObject(name)
			if !ok {
				continue
			}
			if err := visit(name, sum, claim); err != nil {
				return err
			}
		}
		if len(names) < perList {
			return nil
		}
		after = names[len(names)-1]
	}
}

// perList is how many names are asked for at a time.
const perList = 1000

package durable_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"cutie/queuefs/durable"
)

func TestCallersShareTheNextStep(t *testing.T) {
	var (
		together durable.Together[int]
		wg       sync.WaitGroup
		entered  = make(chan bool)
		goOn     = make(chan bool)
		steps    [][]int
	)
	failed := errors.New("failed")
	errs := make([]error, 9)
	step := func(all []int) error {
		steps = append(steps, all)
		if len(steps) == 1 {
			entered <- true
			<-goOn
			return nil
		}
		return failed
	}
	wg.Go(func() { errs[0] = together.Do(0, step) })
	<-entered
	for n := 1; n < 9; n++ {
		wg.Go(func() { errs[n] = together.Do(n, step) })
	}
	close(goOn)
	wg.Wait()
	if errs[0] != nil || len(steps[0]) != 1 {
		t.Errorf("the first step: %v of %v", errs[0], steps[0])
	}
	var others []int
	for _, s := range steps[1:] {
		others = append(others, s...)
	}
	slices.Sort(others)
	if !slices.Equal(others, []int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("steps %v", steps)
	}
	for n, err := range errs[1:] {
		if err != failed {
			t.Errorf("caller %d got %v", n+1, err)
		}
	}
}

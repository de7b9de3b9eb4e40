package main

import (
	"testing"
)

func TestBatches(t *testing.T) {
	files := func(sizes ...int64) (list []payload) {
		for _, s := range sizes {
			list = append(list, payload{size: s})
		}
		return list
	}
	small := make([]int64, batchFiles+1)
	for _, tt := range []struct {
		name  string
		sizes []int64
		want  []int // files in each batch
	}{
		{"one", []int64{1}, []int{1}},
		{"too many", small, []int{batchFiles, 1}},
		{"too much", []int64{batchOctets - 1, 1, 1}, []int{2, 1}},
		{"large alone", []int64{1, batchOctets + 1, 1}, []int{1, 1, 1}},
		{"pipes alone", []int64{-1, -1, 0, 0}, []int{1, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for rest := files(tt.sizes...); len(rest) > 0; {
				var batch []payload
				batch, rest = nextBatch(rest)
				got = append(got, len(batch))
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("got %v, want %v", got, tt.want)
				}
			}
		})
	}
}

package fault

import "strings"

// maxNear is the most names in a hint; more are no help.
const maxNear = 3

// Near returns the names that may be meant by word, joined by "or"; "" if there are
// none, or too many to help.
func Near(word string, names []string) string {
	var near []string
	for _, name := range names {
		if isNear(word, name) {
			near = append(near, name)
		}
	}
	if len(near) > maxNear {
		return ""
	}
	return strings.Join(near, " or ")
}

// maxWord is longer than the names of all verbs.
const maxWord = 30

// isNear reports whether a name may be meant by word: word begins it, or is a slip
// of the fingers away from it, or two in a word of 8 letters.
func isNear(word, name string) bool {
	word, name = strings.ToLower(word), strings.ToLower(name)
	if len(word) < 3 || len(word) > maxWord {
		return len(word) == 2 && strings.HasPrefix(name, word)
	}
	return strings.HasPrefix(name, word) || slips(word, name) <= 1+len(word)/8
}

// slips is how many letters are missing, added, wrong or changed over with the next
// one (the distance of optimal string alignment).
func slips(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				d[i][j] = j
				continue
			}
			wrong := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				wrong++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

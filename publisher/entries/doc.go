// Package entries prints jobs and events as entries of Resource Lists and Change
// Lists (Z39.99-2017, 10 and 12), a line each, and finds events in Change Lists.
// It is pure: the same jobs and events give the same bytes.
package entries

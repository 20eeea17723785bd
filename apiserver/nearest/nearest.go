// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nearest finds the known name that an unknown name is probably a misspelling of.
package nearest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Name returns the known name with the fewest changed, inserted, deleted or swapped letters, regardless of case. If
// more than a third of the unknown name's letters differ from every known name, it returns the name of the nearest
// length that contains the unknown name or is contained in it, for example clusterName for cluster, and otherwise an
// empty string. Of several such names it returns the first.
func Name(unknown string, known []string) string {
	if name := misspelt(unknown, known); name != "" {
		return name
	}
	return containing(unknown, known)
}

const (
	// minContained is the minimum length of a name that another one contains, in bytes.
	minContained = 4
	// maxUnknown is the maximum length, in bytes, of an unknown name for which a known name is returned because one
	// contains the other.
	maxUnknown = 64
)

func containing(unknown string, known []string) string {
	if len(unknown) > maxUnknown {
		return ""
	}
	found, least := "", maxUnknown
	for _, name := range known {
		shorter, longer := unknown, name
		if len(shorter) > len(longer) {
			shorter, longer = longer, shorter
		}
		if d := len(longer) - len(shorter); len(shorter) >= minContained && d < least &&
			strings.Contains(strings.ToLower(longer), strings.ToLower(shorter)) {
			found, least = name, d
		}
	}
	return found
}

func misspelt(unknown string, known []string) string {
	found, least := "", max(1, len(unknown)/3)+1
	for _, name := range known {
		// The distance is at least the difference of the lengths. Without this check, clients could send long names, for
		// which computing the distance takes much time.
		if max(len(unknown)-len(name), len(name)-len(unknown)) >= least {
			continue
		}
		if d := distance(strings.ToLower(unknown), strings.ToLower(name)); d < least {
			found, least = name, d
		}
	}
	return found
}

// distance returns the optimal string alignment distance of two texts in bytes.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// FlagError returns the error of parsing flags. If it is about an unknown flag, the nearest visible flag follows the
// message of the error.
func FlagError(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			known = append(known, f.Name)
		}
	})
	name := Name(unknown.GetSpecifiedName(), known)
	if name == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, name)
}

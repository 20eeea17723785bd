// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pattern matches names with the patterns in policies of a provider. A pattern is a name with at most one *,
// which stands for any characters, also none.
package pattern

import (
	"errors"
	"slices"
	"strings"
)

// Any is the pattern that every name matches.
const Any = "*"

// Validate fails if a pattern is empty or has more than one *.
func Validate(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("must not be empty")
	case strings.Count(pattern, Any) > 1:
		return errors.New("must have at most one *, which stands for any characters")
	}
	return nil
}

// Matches reports whether a name matches a valid pattern.
func Matches(pattern, name string) bool {
	prefix, suffix, any := strings.Cut(pattern, Any)
	if !any {
		return pattern == name
	}
	return len(name) >= len(prefix)+len(suffix) && strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix)
}

// MatchesAny reports whether a name matches one of the patterns.
func MatchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Matches(pattern, name) })
}

// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// saidInJSON reads what clients send, and refuses what JSON has no words for. In
// protobuf a text may be any bytes, and a value of two kinds of neither. Stored,
// such an object could not be listed as JSON any more, and a patch, as the one that
// takes a finalizer off, would find that it changes what it left alone.
type saidInJSON struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns a decoder that refuses these objects. They are looked at
// as they come, in the version that names their fields.
func (s saidInJSON) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return s.NegotiatedSerializer.DecoderToVersion(jsonWords{decoder}, version)
}

type jsonWords struct{ runtime.Decoder }

// Decode returns an error that names the field where an object cannot be said in
// JSON.
func (d jsonWords) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	if object != nil {
		if path, why := unsayable(reflect.ValueOf(object)); why != "" {
			return nil, kind, fmt.Errorf("%s: %s", strings.TrimPrefix(path, "."), why)
		}
	}
	return object, kind, err
}

// unsayable is the first field of a value that JSON has no words for, and why; both
// are empty if there is none.
func unsayable(value reflect.Value) (path, why string) {
	switch value.Kind() {
	case reflect.String:
		if !utf8.ValidString(value.String()) {
			return "", "is not valid UTF-8"
		}
	case reflect.Pointer:
		return unsayable(value.Elem())
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return "", ""
		}
		for i := range value.Len() {
			if path, why := unsayable(value.Index(i)); why != "" {
				return fmt.Sprintf("[%d]%s", i, path), why
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			for _, part := range []reflect.Value{entries.Key(), entries.Value()} {
				if path, why := unsayable(part); why != "" {
					return fmt.Sprintf("[%q]%s", entries.Key(), path), why
				}
			}
		}
	case reflect.Struct:
		switch value.Type() {
		case reflect.TypeFor[intstr.IntOrString]():
			if kind := value.Interface().(intstr.IntOrString).Type; kind != intstr.Int && kind != intstr.String {
				return "", "is neither a number nor a text"
			}
		case reflect.TypeFor[time.Time]():
			if year := value.Interface().(time.Time).UTC().Year(); year < 0 || year > 9999 {
				return "", "is not in a year of four digits"
			}
		}
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			if path, why := unsayable(value.Field(i)); why != "" {
				// Without a name it is one with what it is in.
				if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
					path = "." + name + path
				}
				return path, why
			}
		}
	}
	return "", ""
}

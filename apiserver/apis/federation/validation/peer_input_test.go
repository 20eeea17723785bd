// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestCLISanitisesPeerStrings(t *testing.T) {
	condition := func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Because",
			LastTransitionTime: metav1.NewTime(time.Unix(1, 0)), Message: message}}
	}
	for message, good := range map[string]bool{
		"": true,
		"The provider reports:\n\tно, 不, لا.": true,
		"\x1b[2J\x1b]0;title\x07":             false,
		"overwritten\rby this":                false,
		"reads \u202ebackwards":               false,
		"ends\x00":                            false,
		"\u009b31m":                           false,
		"not UTF-8 \xff":                      false,
		strings.Repeat("fine ", 100) + "\b":   false,
	} {
		if errs := conditions(condition(message), statusPath); (len(errs) == 0) != good {
			t.Errorf("%q in a condition: %v", message, errs)
		}
		m := &federation.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome",
			ResourceVersion: "1"}}
		old := m.DeepCopy()
		m.Status.Namespaces = []federation.NamespaceMappingStatus{{Name: "a", RemoteName: "a",
			Phase: federation.NamespaceMappingReady, Message: message}}
		if errs := ValidateNamespaceMapStatusUpdate(m, old); (len(errs) == 0) != good {
			t.Errorf("%q in a namespace map: %v", message, errs)
		}
	}
}

func TestRefusedValuesAreCutBetweenCharacters(t *testing.T) {
	for value, want := range map[string]string{
		"":                            "",
		strings.Repeat("ä", 32):       strings.Repeat("ä", 32),
		strings.Repeat("ä", 33):       strings.Repeat("ä", 32) + "…",
		"x" + strings.Repeat("ä", 32): "x" + strings.Repeat("ä", 31) + "…",
	} {
		if got := truncate(value); got != want {
			t.Errorf("%q is cut to %q, want %q", value, got, want)
		}
	}
}

// maxRefusal is the maximum size, in bytes, of the error for an invalid object of a few kilobytes.
const maxRefusal = 1 << 20

// fuzzObject fuzzes check with objects that it decodes from JSON and protobuf as the API server
// does. It fails the test if an error is very large or not UTF-8.
func fuzzObject[P runtime.Object](f *testing.F, check func(*testing.T, P) field.ErrorList, seeds ...runtime.Object) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	for _, form := range []runtime.Serializer{
		protobuf.NewSerializer(scheme, scheme),
		jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
			jsonserializer.SerializerOptions{}),
	} {
		encoder := codecs.EncoderForVersion(form, v1alpha1.SchemeGroupVersion)
		for _, seed := range seeds {
			encoded, err := runtime.Encode(encoder, seed)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(encoded)
		}
	}
	decoder := codecs.UniversalDecoder(federation.SchemeGroupVersion)
	f.Fuzz(func(t *testing.T, body []byte) {
		obj, _, err := decoder.Decode(body, nil, nil)
		if err != nil {
			return
		}
		typed, ok := obj.(P)
		if !ok {
			return
		}
		errs := check(t, typed)
		if len(errs) == 0 {
			return
		}
		message := errs.ToAggregate().Error()
		if len(message) > maxRefusal+64*len(body) || !utf8.ValidString(message) && utf8.Valid(body) {
			t.Errorf("the error for a body of %d bytes has %d bytes", len(body), len(message))
		}
	})
}

func meta(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

func FuzzResourceRequest(f *testing.F) {
	fuzzObject(f, func(t *testing.T, r *federation.ResourceRequest) field.ErrorList {
		errs := ValidateResourceRequest(r)
		if len(errs) > 0 {
			return errs
		}
		for name, quantity := range r.Spec.Resources {
			if quantity.Sign() < 0 {
				t.Errorf("%s of %s is accepted", quantity.String(), name)
			}
		}
		// An object that is valid at its creation must be valid as an update of itself.
		r.ResourceVersion = "1"
		if again := ValidateResourceRequestUpdate(r, r.DeepCopy()); len(again) > 0 {
			t.Errorf("accepted, then refused: %v", again)
		}
		return nil
	}, &v1alpha1.ResourceRequest{ObjectMeta: meta("rome", "liqo-tenant-rome"), Spec: v1alpha1.ResourceRequestSpec{
		Resources: corev1.ResourceList{"cpu": resource.MustParse("1"), "example.com/gpu": resource.MustParse("2")},
	}})
}

func FuzzNamespaceMap(f *testing.F) {
	fuzzObject(f, func(t *testing.T, m *federation.NamespaceMap) field.ErrorList {
		errs := ValidateNamespaceMap(m)
		if len(errs) > 0 {
			return errs
		}
		seen := map[string]bool{}
		for _, mapping := range m.Spec.Namespaces {
			if strings.ContainsAny(mapping.RemoteName, "/.%\\ ") || len(mapping.RemoteName) > 63 || seen[mapping.RemoteName] {
				t.Errorf("the remote name %q is accepted", mapping.RemoteName)
			}
			seen[mapping.RemoteName] = true
		}
		return nil
	}, &v1alpha1.NamespaceMap{ObjectMeta: meta("rome", "liqo-tenant-rome"), Spec: v1alpha1.NamespaceMapSpec{
		Namespaces: []v1alpha1.NamespaceMapping{{Name: "shop", RemoteName: "shop-rome"}},
	}})
}

func FuzzShadowPod(f *testing.F) {
	fuzzObject(f, func(t *testing.T, pod *federation.ShadowPod) field.ErrorList {
		errs := ValidateShadowPod(pod)
		if len(errs) > 0 {
			return errs
		}
		expectNoEscape(t, pod)
		pod.ResourceVersion = "1"
		changed := pod.DeepCopy()
		changed.Spec.Pod.Containers[0].Image = "example.com/other"
		if again := ValidateShadowPodUpdate(changed, pod); len(again) > 0 {
			t.Errorf("a new image is refused: %v", again)
		}
		return nil
	}, &v1alpha1.ShadowPod{ObjectMeta: meta("web", "shop-rome"), Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "web", Image: "example.com/web",
			SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(false)}}},
		Volumes: []corev1.Volume{{Name: "tmp",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
	}}})
}

// expectNoEscape fails the test if an accepted pod has a field that gives access beyond its
// namespace. It searches the JSON form of the pod, and so finds fields at any depth.
func expectNoEscape(t *testing.T, pod *federation.ShadowPod) {
	t.Helper()
	encoded, err := json.Marshal(pod.Spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	// Quotes within strings are escaped in JSON; they are removed, so that only names of fields
	// match.
	fields := strings.ReplaceAll(string(encoded), `\"`, ``)
	for _, forbidden := range []string{
		`"hostPath":`, `"hostNetwork":true`, `"hostPID":true`, `"hostIPC":true`, `"privileged":true`,
		`"nodeName":`, `"hostPort":`,
		`"serviceAccountToken":`, `"priorityClassName":`, `"ephemeralContainers":`, `"procMount":"Unmasked"`,
		`"automountServiceAccountToken":true`,
	} {
		if strings.Contains(fields, forbidden) {
			t.Errorf("%s is accepted in %s", forbidden, encoded)
		}
	}
}

// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Translation determines how the virtual kubelet sets a field of a shadow pod from the local pod.
type Translation int

const (
	// Dropped fields are not in the shadow pod.
	Dropped Translation = iota
	// Forwarded fields have the value of the local pod.
	Forwarded
	// Translated fields have a value that a function of package translate computes from the local pod.
	Translated
	// Disabled fields are false in every shadow pod.
	Disabled
)

// Admission determines which values of a field the provider accepts in a new shadow pod, which is
// untrusted input.
type Admission int

const (
	// Accepted fields may have every value that Kubernetes permits.
	Accepted Admission = iota
	// Checked fields are validated by functions of package validation and by Pod Security.
	Checked
	// Refused fields must not be set. If the rule of a field has a Refusal, Refusals returns the error for it. Otherwise
	// package validation or Pod Security refuses the field.
	Refused
	// Overwritten fields may have any value, which the provider replaces in the remote pod.
	Overwritten
)

// Field is the rule for one field of a PodSpec or of a container. The translation by virtual kubelets, the validation
// of shadow pods, their remote pods and the table in docs/pods.md are derived from it.
type Field struct {
	// Name is the name of the field in Go.
	Name        string
	Translation Translation
	Admission   Admission
	// Refusal is the error message for a Refused field that is set. Except is a value that is accepted nevertheless.
	// Reset empties the field.
	Refusal, Except string
	// Page is the text about the field in docs/pods.md.
	Page string
}

// Values of Field.Page that several fields have.
const (
	pageUnchanged  = "unchanged"
	pageScheduling = "dropped: they applied to the selection of the virtual node. Where the provider offers " +
		"[node by node](quotas.md#node-by-node), the pod runs on nodes like the offered one"
	pageHost     = "off; host ports of a pod in the host's network are dropped"
	pageIdentity = "dropped, or off: identities of the provider are not for pods of consumers"
	pagePriority = "dropped: each cluster has its own priorities"
	pageName     = "unchanged; the domain has the remote namespace"
)

// Values of Field.Refusal that several fields have.
const (
	refusedNode     = "must be empty: the scheduler of the provider selects the node"
	refusedAccount  = "must be empty or default: pods of consumers use no service accounts of the provider"
	refusedPriority = "must be empty: pods of consumers have no priorities of the provider"
)

// PodFields are the rules for all fields of a PodSpec. A field without a rule, for example of a newer
// version of Kubernetes, is neither forwarded nor accepted.
var PodFields = []Field{
	{Name: "Containers", Translation: Translated, Admission: Checked, Page: "[below](#fields-of-containers)"},
	{Name: "InitContainers", Translation: Translated, Admission: Checked, Page: "[below](#fields-of-containers)"},
	{Name: "EphemeralContainers", Translation: Translated, Admission: Refused, Page: "unchanged, " +
		"[once the pod exists](#looking-into-a-pod)"},
	{Name: "Volumes", Translation: Translated, Admission: Checked, Page: "[above](#volumes)"},
	{Name: "Resources", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "SecurityContext", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "RestartPolicy", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "TerminationGracePeriodSeconds", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "ActiveDeadlineSeconds", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "ShareProcessNamespace", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "ImagePullSecrets", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "OS", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "HostUsers", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "ResourceClaims", Translation: Forwarded, Admission: Accepted, Page: pageUnchanged},
	{Name: "Hostname", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{Name: "HostnameOverride", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{Name: "Subdomain", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{Name: "SetHostnameAsFQDN", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{Name: "HostAliases", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{Name: "DNSPolicy", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{Name: "DNSConfig", Translation: Forwarded, Admission: Accepted, Page: pageName},
	{
		Name:        "RuntimeClassName",
		Translation: Forwarded,
		Admission:   Accepted,
		Page:        "unchanged, or the class of the virtual node",
	},
	{Name: "Overhead", Translation: Dropped, Admission: Accepted, Page: "dropped: the provider's RuntimeClass sets it"},

	{Name: "HostNetwork", Translation: Dropped, Admission: Refused, Page: pageHost},
	{Name: "HostPID", Translation: Dropped, Admission: Refused, Page: pageHost},
	{Name: "HostIPC", Translation: Dropped, Admission: Refused, Page: pageHost},

	{Name: "NodeName", Translation: Dropped, Admission: Refused, Refusal: refusedNode, Page: pageScheduling},
	{Name: "NodeSelector", Translation: Dropped, Admission: Checked, Page: pageScheduling},
	{Name: "SchedulerName", Translation: Dropped, Admission: Refused, Except: corev1.DefaultSchedulerName,
		Refusal: "must be empty or " + corev1.DefaultSchedulerName, Page: pageScheduling},
	{Name: "SchedulingGates", Translation: Dropped, Admission: Accepted, Page: pageScheduling},
	{Name: "SchedulingGroup", Translation: Dropped, Admission: Refused,
		Refusal: "must be empty: pods of consumers are in no scheduling group of the provider", Page: pageScheduling},
	{
		Name:        "Affinity",
		Translation: Translated,
		Admission:   Checked,
		Page: "node affinity is dropped as `nodeSelector` is; " +
			"pod affinity and anti-affinity select among the pods of the [remote namespace](#together-apart-and-spread)",
	},
	{Name: "TopologySpreadConstraints", Translation: Translated, Admission: Accepted, Page: "over the provider's nodes"},
	{
		Name:        "Tolerations",
		Translation: Translated,
		Admission:   Checked,
		Page: "unchanged, except tolerations of every taint, of " +
			"virtual nodes, and of `node.kubernetes.io/…`, `node.cloudprovider.kubernetes.io/…` and " +
			"`node-role.kubernetes.io/…`: a [cordoned](#nodes-that-take-no-pods) node takes none",
	},

	{Name: "Priority", Translation: Dropped, Admission: Refused, Refusal: refusedPriority, Page: pagePriority},
	{Name: "PriorityClassName", Translation: Dropped, Admission: Refused, Refusal: refusedPriority, Page: pagePriority},
	// The policy has no effect: only a pod with a higher priority preempts others, and shadow pods have
	// no priority.
	{Name: "PreemptionPolicy", Translation: Dropped, Admission: Accepted, Page: pagePriority},
	{Name: "EvictionResponders", Translation: Dropped, Admission: Refused,
		Refusal: "must be empty: evictions on the provider do not wait for responders of consumers", Page: pagePriority},

	{Name: "ServiceAccountName", Translation: Dropped, Admission: Refused, Refusal: refusedAccount,
		Except: "default", Page: pageIdentity},
	{Name: "DeprecatedServiceAccount", Translation: Dropped, Admission: Refused, Refusal: refusedAccount,
		Except: "default", Page: pageIdentity},
	{Name: "AutomountServiceAccountToken", Translation: Disabled, Admission: Refused, Page: pageIdentity},
	{Name: "EnableServiceLinks", Translation: Disabled, Admission: Overwritten, Page: pageIdentity},

	{
		Name:        "ReadinessGates",
		Translation: Dropped,
		Admission:   Accepted,
		Page: "watched by the consumer: the local pod is " +
			"not ready before its gates are open, whatever the provider reports",
	},
}

// ContainerFields are the rules for all fields of containers, init containers and ephemeral containers.
// In addition, Pod Security of the provider validates each container.
var ContainerFields = []Field{
	{
		Name:        "Ports",
		Translation: Translated,
		Admission:   Checked,
		Page:        "unchanged, except host ports of a pod in the host's network",
	},
	{Name: "Env", Translation: Translated, Admission: Checked, Page: "unchanged; " +
		"[the downward API](#the-downward-api) describes the local pod"},
	{Name: "EnvFrom", Translation: Translated, Admission: Checked, Page: "unchanged; ConfigMaps have their remote names"},
	{
		Name:        "VolumeMounts",
		Translation: Translated,
		Admission:   Checked,
		Page:        "unchanged, except mounts of dropped volumes",
	},

	{Name: "Name", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "Image", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "Command", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "Args", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "WorkingDir", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "Resources", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "ResizePolicy", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "RestartPolicy", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "RestartPolicyRules", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "VolumeDevices", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "LivenessProbe", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "ReadinessProbe", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "StartupProbe", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "Lifecycle", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "TerminationMessagePath", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "TerminationMessagePolicy", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "ImagePullPolicy", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "SecurityContext", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "Stdin", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "StdinOnce", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
	{Name: "TTY", Translation: Forwarded, Admission: Checked, Page: pageUnchanged},
}

// Forward returns the spec of a shadow pod in which dropped fields are empty and disabled fields are
// false. Translated fields still have the values of the local pod; the caller translates them. The
// result is a deep copy.
func Forward(local *corev1.PodSpec) corev1.PodSpec {
	spec := forward(podTranslations, *local.DeepCopy())
	for i := range spec.Containers {
		spec.Containers[i] = forward(containerTranslations, spec.Containers[i])
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i] = forward(containerTranslations, spec.InitContainers[i])
	}
	for i := range spec.EphemeralContainers {
		// Container and EphemeralContainerCommon have the same fields.
		common := &spec.EphemeralContainers[i].EphemeralContainerCommon
		*common = corev1.EphemeralContainerCommon(forward(containerTranslations, corev1.Container(*common)))
	}
	return spec
}

// The translations are indexed by the position of the field in the struct: a lookup by name is too slow for each pod.
var (
	podTranslations       = translations[corev1.PodSpec](PodFields)
	containerTranslations = translations[corev1.Container](ContainerFields)
)

func translations[T any](fields []Field) []Translation {
	all := make([]Translation, reflect.TypeFor[T]().NumField())
	for _, rule := range fields {
		if field, known := reflect.TypeFor[T]().FieldByName(rule.Name); known {
			all[field.Index[0]] = rule.Translation
		}
	}
	return all
}

func forward[T any](translations []Translation, from T) (result T) {
	source, target := reflect.ValueOf(&from).Elem(), reflect.ValueOf(&result).Elem()
	for i, translation := range translations {
		switch field := target.Field(i); translation {
		case Forwarded, Translated:
			field.Set(source.Field(i))
		case Disabled:
			field.Set(reflect.New(field.Type().Elem()))
		}
	}
	return result
}

// Refusal is an error about a field of a shadow pod that must not be set.
type Refusal struct {
	// Field is the name of the field in JSON.
	Field string
	// Message is the reason for the refusal, from Field.Refusal.
	Message string
}

// Refusals returns an error for each set field of a shadow pod whose rule has a Refusal.
func Refusals(spec *corev1.PodSpec) []Refusal {
	value := reflect.ValueOf(spec).Elem()
	var refused []Refusal
	for _, rule := range PodFields {
		if rule.Refusal == "" {
			continue
		}
		field := value.FieldByName(rule.Name)
		if empty(field) || rule.Except != "" && field.String() == rule.Except {
			continue
		}
		refused = append(refused, Refusal{Field: rule.JSONName(value.Type()), Message: rule.Refusal})
	}
	return refused
}

// Reset sets the fields of a remote pod whose values the provider determines: a field whose rule has a Refusal becomes
// empty, and a disabled field false. It does not rely on the validation of shadow pods, so that a remote pod has no
// identity, priority or node that a consumer selected.
func Reset(spec *corev1.PodSpec) {
	value := reflect.ValueOf(spec).Elem()
	for _, rule := range PodFields {
		switch field := value.FieldByName(rule.Name); {
		case rule.Translation == Disabled:
			field.Set(reflect.New(field.Type().Elem()))
		case rule.Refusal != "":
			field.SetZero()
		}
	}
}

func empty(field reflect.Value) bool {
	return field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0
}

// JSONName returns the JSON name of the field. The parameter of is the type of the struct that has the field, for
// example corev1.PodSpec.
func (f Field) JSONName(of reflect.Type) string {
	field, _ := of.FieldByName(f.Name)
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

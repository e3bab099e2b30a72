{{/* The name of a part: `<release>-<part>`. */}}
{{- define "allotment.name" -}}
{{ printf "%s-%s" .root.Release.Name .part | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
What tells the pods of a part. The product knows them by two of these: `name` lets them reach the APIs of virtual clusters,
`component: proxy` is whom notebooks let in (docs/isolation.md). So neither is a value.
*/}}
{{- define "allotment.selector" -}}
app.kubernetes.io/name: allotment
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component | default .part }}
{{- end }}

{{- define "allotment.labels" -}}
{{ include "allotment.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: allotment
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "allotment.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ $tag }}{{ end }}
{{- end }}

{{/* A variable that comes from a Secret: name, existingSecret, key. */}}
{{- define "allotment.secretVariable" -}}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .from.existingSecret | quote }}, key: {{ .from.key | quote }}}}
{{- end }}

{{/* The host of an address, without its port. */}}
{{- define "allotment.host" -}}
{{ (urlParse .).hostname }}
{{- end }}

{{/* Where Prometheus reads: the portal refuses a pod's address as a host. */}}
{{- define "allotment.metricsHost" -}}
{{ include "allotment.name" (dict "root" . "part" "web") }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Environment of every part. Numbers of a values file are floats, and a large float would be written 1e+06. */}}
{{- define "allotment.environment" -}}
- {name: ALLOTMENT_MODE, value: production}
{{- $settings := deepCopy .Values.settings }}
{{- if .Values.serviceMonitor.enabled }}
{{- $_ := set $settings "hosts" (list $settings.hosts (include "allotment.metricsHost" .) | compact | join ",") }}
{{- end }}
{{- range $name, $value := $settings }}
- name: ALLOTMENT_{{ upper $name }}
  value: {{ ternary ($value | int64) $value (kindIs "float64" $value) | toString | quote }}
{{- end }}
{{ include "allotment.secretVariable" (dict "name" "ALLOTMENT_SECRET_KEY" "from" .Values.secretKey) }}
{{ include "allotment.secretVariable" (dict "name" "ALLOTMENT_DATABASE_URL" "from" .Values.database) }}
{{ include "allotment.secretVariable" (dict "name" "ALLOTMENT_REDIS_URL" "from" .Values.redis) }}
{{- with .Values.gateway }}
{{- if .name }}
- {name: ALLOTMENT_GATEWAY, value: {{ printf "%s/%s" .namespace .name | quote }}}
- {name: ALLOTMENT_DOOR_SERVICE, value: {{ include "allotment.name" (dict "root" $ "part" "door") | quote }}}
{{- end }}
{{- end }}
{{- range $name, $from := .Values.secretEnv }}
{{ include "allotment.secretVariable" (dict "name" $name "from" $from) }}
{{- end }}
{{- end }}

{{/* What OpenTelemetry's SDK reads, for the parts that are traced. */}}
{{- define "allotment.tracing" -}}
{{- with .Values.tracing -}}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
- {name: OTEL_SERVICE_NAME, value: {{ .serviceName | quote }}}
- {name: OTEL_TRACES_SAMPLER, value: {{ .sampler | quote }}}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .samplerArg | quote }}}
{{- if .headers.existingSecret }}
{{ include "allotment.secretVariable" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "from" .headers) }}
{{- end }}
{{- end }}
{{- end }}
